#include "cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kv_cache.h"
#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// The number of query rows that pass over the keys together: 4 tiles of 12. Keys and values are
// read from memory once for all 48 rows, whose sums (48 x 128 x 4 bytes) stay in cache.
constexpr int64_t kQueryRows = 48;
// The number of positions in a range. A range is one task in decoding, where there are few rows to
// divide among threads.
constexpr int64_t kRangePositions = 8 * kKeyBlock;

// The new tokens of one sequence, which are the rows from first_token on of the batch. The rows of
// a kv head are its queries, token by token: row t is head t % group of token t / group.
struct Sequence {
  const CpuKvCache* cache;
  int64_t first_token, tokens;
};

// A block of rows of one kv head, and the ranges into which its positions are divided. Each range
// leaves a slot: per row, the largest score and two sums relative to it. finish() adds up the
// slots.
//
// Ranges begin at multiples of kRangePositions whatever the rows are, and positions that a row does
// not see add nothing to its slots. A token's result therefore has the same bits whether it comes
// alone or with others of its sequence. The number of threads and the rest of the batch do not
// matter, either.
struct RowBlock {
  Sequence sequence;
  int64_t head, first_row, rows;
  // Positions that some row sees; begin is rounded down to a block of the cache.
  int64_t begin, end;
  bool split;  // every range is a task; otherwise all ranges together are one
  // The first of ranges() slots, if split; otherwise the thread's slots are used.
  int64_t first_slot;

  int64_t first_range() const { return begin / kRangePositions; }
  int64_t ranges() const { return (end - 1) / kRangePositions + 1 - first_range(); }
};

// The tasks of one call of attention(), and their results.
class Attention {
 public:
  Attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
            ConstMatrixView q, MutableMatrixView y)
      : kernels_(kernels), shape_(shape), layer_(layer), q_(q), y_(y) {}

  // Divides the sequence's rows into blocks. If there is only one block (decoding), its positions
  // are divided into ranges, so that there is work for all threads.
  void add(const Sequence& sequence) {
    const int64_t rows = sequence.tokens * group();
    const int64_t blocks = (rows + kQueryRows - 1) / kQueryRows;
    // The last blocks see most positions, and long tasks come first.
    for (int64_t b = blocks - 1; b >= 0; --b) {
      RowBlock block = {.sequence = sequence,
                        .head = 0,
                        .first_row = b * kQueryRows,
                        .rows = std::min(kQueryRows, rows - b * kQueryRows),
                        .begin = begin(sequence, b * kQueryRows),
                        .end = 0,
                        .split = false,
                        .first_slot = 0};
      block.end = position(sequence, block.first_row + block.rows - 1) + 1;
      work_ +=
          2 * block.rows * (block.end - block.begin) * shape_.head_dim * shape_.num_key_value_heads;
      for (; block.head < shape_.num_key_value_heads; ++block.head) add_tasks(block);
    }
  }

  // Runs all tasks. A block that is not split is finished by the thread that computed it. The
  // ranges of a split block are added up at the end, in order.
  void run(Buffer<float>& scratch) const {
    float* const slots =
        scratch.reserve((own_slots_ + num_threads() * thread_slots_) * slot_floats());
    float* const of_threads = slots + own_slots_ * slot_floats();
    for_each_task(std::ssize(tasks_), work_, [&](int64_t i, int thread) {
      const Task& task = tasks_[static_cast<size_t>(i)];
      const RowBlock& block = blocks_[static_cast<size_t>(task.block)];
      float* const first = block.split ? slots + block.first_slot * slot_floats()
                                       : of_threads + thread * thread_slots_ * slot_floats();
      for (int64_t range = task.first_range; range < task.end_range; ++range) {
        compute(block, range, first + range * slot_floats());
      }
      if (!block.split) finish(block, first);
    });
    for (const RowBlock& block : blocks_) {
      if (block.split) finish(block, slots + block.first_slot * slot_floats());
    }
  }

 private:
  struct Task {
    int64_t block, first_range, end_range;  // ranges of the block
  };

  void add_tasks(RowBlock block) {
    const int64_t ranges = block.ranges();
    if (block.split) {
      block.first_slot = own_slots_;
      own_slots_ += ranges;
    } else {
      thread_slots_ = std::max(thread_slots_, ranges);
    }
    const int64_t step = block.split ? 1 : ranges;
    for (int64_t range = 0; range < ranges; range += step) {
      tasks_.push_back({std::ssize(blocks_), range, range + step});
    }
    blocks_.push_back(block);
  }

  int64_t group() const { return shape_.num_attention_heads / shape_.num_key_value_heads; }
  int64_t features() const { return (shape_.head_dim + kPanel - 1) / kPanel * kPanel; }
  int64_t position(const Sequence& sequence, int64_t row) const {
    return sequence.cache->length() + row / group();
  }
  // Returns the first position that the row sees, rounded down to a block of the cache. Positions
  // before the window are masked later.
  int64_t begin(const Sequence& sequence, int64_t row) const {
    const int64_t window = shape_.sliding_window;
    const int64_t first =
        window > 0 ? std::max<int64_t>(0, position(sequence, row) - window + 1) : 0;
    return first / kKeyBlock * kKeyBlock;
  }
  // The place of row `row` of the block in q and y: the token's row, and the first column of its
  // head.
  int64_t token(const RowBlock& block, int64_t row) const {
    return block.sequence.first_token + (block.first_row + row) / group();
  }
  int64_t column(const RowBlock& block, int64_t row) const {
    return (block.head * group() + (block.first_row + row) % group()) * shape_.head_dim;
  }

  // The layout of a slot: max, sum and weighted values of kQueryRows rows, then their packed
  // queries. Each part takes whole cache lines.
  static constexpr int64_t kMax = 0, kSum = kQueryRows, kWeighted = 2 * kQueryRows;
  int64_t query_offset() const { return kWeighted + kQueryRows * features(); }
  int64_t slot_floats() const { return query_offset() + kQueryRows * features(); }

  // Packs the queries of a block, scaled by 1 / sqrt(head_dim), as the left factor of a product.
  PackedRows pack_queries(const RowBlock& block, float* packed) const {
    const PackedRows a = {.data = packed,
                          .rows = block.rows,
                          .k = shape_.head_dim,
                          .k_block = shape_.head_dim,
                          .tiles = (block.rows + kernels_.tile_rows - 1) / kernels_.tile_rows};
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    for (int64_t tile = 0; tile < a.tiles; ++tile) {
      const float* rows[kMaxTileRows];
      for (int64_t r = 0; r < a.tile_rows(tile); ++r) {
        const int64_t row = a.first_row(tile) + r;
        rows[r] = q_.row(token(block, row)) + column(block, row);
      }
      kernels_.pack_tile(a, tile, {0, a.k}, scale, rows, packed);
    }
    return a;
  }

  // Computes one range of positions for one block of rows, into a slot.
  void compute(const RowBlock& block, int64_t range, float* slot) const {
    const CpuKvCache& cache = *block.sequence.cache;
    const int64_t first = (block.first_range() + range) * kRangePositions;
    kernels_.attend({.q = pack_queries(block, slot + query_offset()),
                     .blocks = cache.block_data(),
                     .is_bf16 = cache.is_bf16(),
                     .keys_offset = cache.keys_offset(layer_, block.head),
                     .values_offset = cache.values_offset(layer_, block.head),
                     .first_row = block.first_row,
                     .group = group(),
                     .first_position = cache.length(),
                     .window = shape_.sliding_window,
                     .begin = std::max(block.begin, first),
                     .end = std::min(block.end, first + kRangePositions),
                     .max = slot + kMax,
                     .sum = slot + kSum,
                     .weighted = slot + kWeighted});
  }

  void finish(const RowBlock& block, const float* slots) const {
    for (int64_t r = 0; r < block.rows; ++r) {
      finish_row(slots, block.ranges(), r, y_.row(token(block, r)) + column(block, r));
    }
  }

  // Combines a row's ranges. Each has its own maximum m_s and sums relative to it. With m the
  // largest m_s, the row is sum_s e^(m_s - m) * weighted_s divided by sum_s e^(m_s - m) * sum_s.
  void finish_row(const float* slots, int64_t ranges, int64_t r, float* out) const {
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t s = 0; s < ranges; ++s) max = std::max(max, slots[s * slot_floats() + kMax + r]);
    float sum = 0.0f;
    std::fill_n(out, shape_.head_dim, 0.0f);
    for (int64_t s = 0; s < ranges; ++s) {
      const float* const slot = slots + s * slot_floats();
      const float factor = std::exp(slot[kMax + r] - max);
      const float* const weighted = slot + kWeighted + r * features();
      sum += factor * slot[kSum + r];
      for (int64_t d = 0; d < shape_.head_dim; ++d) out[d] += factor * weighted[d];
    }
    for (int64_t d = 0; d < shape_.head_dim; ++d) out[d] /= sum;
  }

  const Kernels& kernels_;
  const ops::AttentionShape& shape_;
  const int64_t layer_;
  const ConstMatrixView q_;
  const MutableMatrixView y_;
  std::vector<RowBlock> blocks_;
  std::vector<Task> tasks_;
  int64_t own_slots_ = 0, thread_slots_ = 0;  // slots of all split blocks; slots of each thread
  int64_t work_ = 0;                          // in multiply-adds
};

// Refuses the cache of another backend, which has another layout.
CpuKvCache& cpu_cache(const ops::SequenceRows& sequence) {
  auto* const cache = dynamic_cast<CpuKvCache*>(sequence.cache);
  NMM_CHECK(cache != nullptr);
  NMM_CHECK(cache->length() + sequence.rows <= cache->shape().capacity_tokens);
  return *cache;
}

}  // namespace

void attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
               ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
               Buffer<float>& scratch, MutableMatrixView y) {
  NMM_CHECK(shape.num_attention_heads % shape.num_key_value_heads == 0);
  Attention attention(kernels, shape, layer, q, y);
  std::vector<int64_t> first_rows;
  int64_t first_row = 0;
  for (const ops::SequenceRows& sequence : batch) {
    CpuKvCache& cache = cpu_cache(sequence);
    cache.grow(cache.length() + sequence.rows);
    attention.add(Sequence{&cache, first_row, sequence.rows});
    first_rows.push_back(first_row);
    first_row += sequence.rows;
  }
  NMM_CHECK(first_row == q.rows);
  const int64_t heads = shape.num_key_value_heads;
  for_each_task(std::ssize(batch) * heads, k.rows * k.columns, [&](int64_t task) {
    const auto i = static_cast<size_t>(task / heads);
    cpu_cache(batch[i]).store(layer, task % heads, k.row_range(first_rows[i], batch[i].rows),
                              v.row_range(first_rows[i], batch[i].rows));
  });
  attention.run(scratch);
}

}  // namespace neuronmm::cpu
