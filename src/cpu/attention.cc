#include "cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "cpu/attention_plan.h"
#include "cpu/hadamard.h"
#include "cpu/kv_cache.h"
#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// Refuses the cache of another backend, which has another layout.
CpuKvCache& cpu_cache(const ops::SequenceRows& sequence) {
  auto* const cache = dynamic_cast<CpuKvCache*>(sequence.cache);
  NMM_CHECK(cache != nullptr);
  NMM_CHECK(cache->length() + sequence.rows <= cache->shape().capacity_tokens);
  return *cache;
}

// Runs the tasks of a plan.
class Attention {
 public:
  Attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
            ConstMatrixView q, ops::Batch batch, const std::vector<NewTokens>& tokens,
            MutableMatrixView y)
      : kernels_(kernels),
        shape_(shape),
        layer_(layer),
        q_(q),
        batch_(batch),
        tokens_(tokens),
        y_(y),
        plan_(shape, tokens, num_threads()),
        rows_(plan_.highest_block()) {}

  // A block that is not split is finished by the thread that computed it. The ranges of a split
  // block are added up at the end.
  void run(Buffer<float>& scratch) const {
    const int64_t of_thread = 2 * slot_floats() + query_floats();
    float* const slots = scratch.reserve(plan_.slots() * slot_floats() + num_threads() * of_thread);
    float* const of_threads = slots + plan_.slots() * slot_floats();
    for_each_task(std::ssize(plan_.tasks()), plan_.work(), [&](int64_t i, int thread) {
      const AttentionTask& task = plan_.tasks()[static_cast<size_t>(i)];
      const RowBlock& block = plan_.blocks()[static_cast<size_t>(task.block)];
      float* const own = of_threads + thread * of_thread;
      const PackedRows q = pack_queries(block, own + 2 * slot_floats());
      if (block.split) {
        compute(block, q, task.first_range,
                slot(slots + (block.first_slot + task.first_range) * slot_floats()));
        return;
      }
      const AttentionSums all = slot(own), later = slot(own + slot_floats());
      compute(block, q, 0, all);
      for (int64_t range = 1; range < task.end_range; ++range) {
        compute(block, q, range, later);
        kernels_.add_attention(block.rows, features(), scale(), later, all);
      }
      finish(block, all);
    });
    add_ranges(slots);
  }

 private:
  void add_ranges(float* slots) const {
    for_each_task(std::ssize(plan_.blocks()), plan_.slots() * slot_floats(), [&](int64_t i) {
      const RowBlock& block = plan_.blocks()[static_cast<size_t>(i)];
      if (!block.split) return;
      float* const first = slots + block.first_slot * slot_floats();
      for (int64_t range = 1; range < block.ranges(); ++range) {
        kernels_.add_attention(block.rows, features(), scale(), slot(first + range * slot_floats()),
                               slot(first));
      }
      finish(block, slot(first));
    });
  }

  const CpuKvCache& cache(const RowBlock& block) const {
    return cpu_cache(batch_[static_cast<size_t>(block.sequence)]);
  }
  int64_t group() const { return shape_.num_attention_heads / shape_.num_key_value_heads; }
  int64_t features() const { return (shape_.head_dim + kPanel - 1) / kPanel * kPanel; }
  // Returns what a score is multiplied by before it becomes a power of 2.
  float scale() const {
    if (shape_.score_cap != 0.0) return static_cast<float>(std::numbers::log2e * shape_.score_cap);
    if (shape_.score_scale != 0.0) {
      return static_cast<float>(std::numbers::log2e * shape_.score_scale);
    }
    return std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(shape_.head_dim));
  }
  float cap_factor() const {
    if (shape_.score_cap == 0.0) return 0.0f;
    const double scale = shape_.score_scale != 0.0
                             ? shape_.score_scale
                             : 1.0 / std::sqrt(static_cast<double>(shape_.head_dim));
    return static_cast<float>(scale / shape_.score_cap);
  }
  // Returns the place of row `row` of the block in q and y: the token's row, and the first column
  // of its head.
  int64_t token(const RowBlock& block, int64_t row) const {
    return tokens_[static_cast<size_t>(block.sequence)].first_token +
           (block.first_row + row) / group();
  }
  int64_t column(const RowBlock& block, int64_t row) const {
    return (block.head * group() + (block.first_row + row) % group()) * shape_.head_dim;
  }

  // A slot holds the sums of the highest block. Each part takes whole cache lines.
  int64_t slot_floats() const { return rows_ * (kSumLanes + features()) + padded_rows(); }
  int64_t padded_rows() const { return (rows_ + kSumLanes - 1) / kSumLanes * kSumLanes; }
  int64_t query_floats() const { return rows_ * features() + kRowPadding; }
  AttentionSums slot(float* memory) const {
    float* const sum = memory + padded_rows();
    return {.max = memory, .sum = sum, .weighted = sum + rows_ * kSumLanes};
  }

  // Returns whether queries are rounded to bf16.
  bool rounds(const RowBlock& block) const {
    return !cache(block).is_fp32() && kernels_.dot_products == DotProducts::kInt8AndBf16;
  }

  // Packs the queries of a block as the left factor of a product.
  PackedRows pack_queries(const RowBlock& block, float* packed) const {
    const bool bf16 = rounds(block);
    const int64_t most = bf16 ? kernels_.bf16_tile_rows : kernels_.tile_rows;
    const PackedRows a = {.data = packed,
                          .words = reinterpret_cast<const int32_t*>(packed),
                          .rows = block.rows,
                          .k = shape_.head_dim,
                          .k_block = 2 * bf16_words(shape_.head_dim),
                          .tiles = (block.rows + most - 1) / most,
                          .unit = bf16 ? kernels_.row_unit() : 1};
    std::vector<float> rotated;
    if (cache(block).is_int8()) rotated.resize(static_cast<size_t>(kMaxTileRows * a.k));
    for (int64_t tile = 0; tile < a.tiles; ++tile) {
      const float* rows[kMaxTileRows];
      for (int64_t r = 0; r < a.tile_rows(tile); ++r) {
        const int64_t row = a.first_row(tile) + r;
        rows[r] = q_.row(token(block, row)) + column(block, row);
        if (rotated.empty()) continue;
        float* const to = rotated.data() + r * a.k;
        std::copy_n(rows[r], a.k, to);
        rotate_by_hadamard(to, a.k);
        rows[r] = to;
      }
      if (bf16) {
        kernels_.pack_bf16_tile(a, tile, {0, a.k}, rows, reinterpret_cast<int32_t*>(packed));
      } else {
        kernels_.pack_tile(a, tile, {0, a.k}, rows, packed);
      }
    }
    return a;
  }

  void compute(const RowBlock& block, const PackedRows& q, int64_t range,
               const AttentionSums& sums) const {
    const CpuKvCache& of = cache(block);
    const int64_t first = (block.first_range() + range) * kRangePositions;
    const auto attend = of.is_fp32()   ? kernels_.attend_fp32
                        : of.is_int8() ? kernels_.attend_int8
                                       : kernels_.attend_bf16;
    attend({.q = q,
            .scale = scale(),
            .cap_factor = cap_factor(),
            .blocks = of.block_data(),
            .keys_offset = of.keys_offset(layer_, block.head),
            .values_offset = of.values_offset(layer_, block.head),
            .key_panel = of.key_panel(),
            .value_panel = of.value_panel(),
            .key_scales_offset = of.key_scales_offset(layer_, block.head),
            .value_scales_offset = of.value_scales_offset(layer_, block.head),
            .first_row = block.first_row,
            .group = group(),
            .first_position = of.length(),
            .window = shape_.sliding_window,
            .begin = std::max(block.begin, first),
            .end = std::min(block.end, first + kRangePositions),
            .sums = sums});
  }

  // Adds the head's sink to the sum of a row. If the sink is larger than all scores, the sums are
  // brought to it first, so that its power does not overflow.
  void add_sink(const RowBlock& block, int64_t r, const AttentionSums& sums) const {
    const int64_t head = block.head * group() + (block.first_row + r) % group();
    const float sink = std::numbers::log2e_v<float> * shape_.sinks[static_cast<size_t>(head)];
    const float largest = sums.max[r] * scale();
    float* const sum = sums.sum + r * kSumLanes;
    if (!(sink > largest)) {
      sum[0] += std::exp2(sink - largest);
      return;
    }
    const float factor = std::exp2(largest - sink);
    for (int64_t i = 0; i < kSumLanes; ++i) sum[i] *= factor;
    float* const weighted = sums.weighted + r * features();
    for (int64_t i = 0; i < features(); ++i) weighted[i] *= factor;
    sum[0] += 1.0f;
  }

  void finish(const RowBlock& block, const AttentionSums& sums) const {
    for (int64_t r = 0; r < block.rows; ++r) {
      if (!shape_.sinks.empty()) add_sink(block, r, sums);
      kernels_.finish_attention(sums.sum + r * kSumLanes, sums.weighted + r * features(),
                                shape_.head_dim, y_.row(token(block, r)) + column(block, r));
    }
  }

  const Kernels& kernels_;
  const ops::AttentionShape& shape_;
  const int64_t layer_;
  const ConstMatrixView q_;
  const ops::Batch batch_;
  const std::vector<NewTokens>& tokens_;
  const MutableMatrixView y_;
  const AttentionPlan plan_;
  const int64_t rows_;  // of the highest block
};

// Stores the new keys and values. A task has one head and up to a panel of positions.
void store(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView k, ConstMatrixView v,
           ops::Batch batch, const std::vector<NewTokens>& tokens) {
  struct Rows {
    size_t sequence;
    int64_t first, count;  // new tokens of the sequence
  };
  std::vector<Rows> pieces;
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (int64_t first = 0; first < tokens[i].tokens;) {
      const int64_t to_end = kPanel - (tokens[i].past + first) % kPanel;
      const int64_t count = std::min(to_end, tokens[i].tokens - first);
      pieces.push_back({i, first, count});
      first += count;
    }
  }
  constexpr int64_t kStoreWork = 8;  // of an element, in multiply-adds on data in cache; assumed
  const int64_t heads = shape.num_key_value_heads;
  for_each_task(std::ssize(pieces) * heads, 2 * kStoreWork * k.rows * k.columns, [&](int64_t task) {
    const Rows& rows = pieces[static_cast<size_t>(task / heads)];
    const int64_t row = tokens[rows.sequence].first_token + rows.first;
    cpu_cache(batch[rows.sequence])
        .store(layer, task % heads, tokens[rows.sequence].past + rows.first,
               k.row_range(row, rows.count), v.row_range(row, rows.count));
  });
}

}  // namespace

void attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
               ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
               Buffer<float>& scratch, MutableMatrixView y) {
  NMM_CHECK(shape.num_attention_heads % shape.num_key_value_heads == 0);
  NMM_CHECK(shape.sinks.empty() || std::ssize(shape.sinks) == shape.num_attention_heads);
  std::vector<NewTokens> tokens;
  int64_t rows = 0;
  for (const ops::SequenceRows& sequence : batch) {
    CpuKvCache& cache = cpu_cache(sequence);
    cache.grow(cache.length() + sequence.rows);
    tokens.push_back({cache.length(), rows, sequence.rows});
    rows += sequence.rows;
  }
  NMM_CHECK(rows == q.rows);
  store(shape, layer, k, v, batch, tokens);
  Attention(kernels, shape, layer, q, batch, tokens, y).run(scratch);
}

}  // namespace neuronmm::cpu
