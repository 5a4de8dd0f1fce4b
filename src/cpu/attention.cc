#include "cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/tasks.h"

namespace neuronmm::cpu {
namespace {

// Rows of queries that pass over the keys together: 4 tiles of 12, so that keys and values are read
// from afar once for 48 rows; their sums (48 x 128 x 4 bytes) stay in cache.
constexpr int64_t kQueryRows = 48;
// Positions of one task when decoding, where there are few rows to share out.
constexpr int64_t kSplitPositions = 1024;

// The rows of a kv head are its queries, token by token: row t is head t % group of token t /
// group. A unit is a block of these rows over one range of positions; it leaves, per row, the
// largest score and two sums relative to it. Units of the same rows are added up by `finish`. How
// the work is cut depends on shapes only, so results do not depend on the number of threads.
class Attention {
 public:
  Attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
            ConstMatrixView q, const CpuKvCache& cache, MutableMatrixView y)
      : kernels_(kernels), shape_(shape), layer_(layer), q_(q), cache_(cache), y_(y) {
    row_blocks_ = (rows() + kQueryRows - 1) / kQueryRows;
    const int64_t positions = end(rows() - 1) - begin(0);
    if (row_blocks_ == 1) splits_ = (positions + kSplitPositions - 1) / kSplitPositions;
  }

  void run(Buffer<float>& scratch) {
    const int64_t blocks = shape_.num_key_value_heads * row_blocks_;
    const int64_t work =
        2 * q_.rows * q_.columns * std::min(kSplitPositions, cache_.length() + q_.rows);
    const bool split = splits_ > 1;
    float* const slots =
        scratch.reserve(slot_floats() * (split ? blocks * splits_ : num_threads()));
    for_each_task(blocks * splits_, work, [&](int64_t unit, int thread) {
      float* const slot = slots + slot_floats() * (split ? unit : thread);
      compute(unit / splits_, unit % splits_, slot);
      if (!split) finish(unit, slot);
    });
    if (!split) return;
    for (int64_t i = 0; i < blocks; ++i) finish(i, slots + i * splits_ * slot_floats());
  }

 private:
  int64_t group() const { return shape_.num_attention_heads / shape_.num_key_value_heads; }
  int64_t rows() const { return q_.rows * group(); }
  int64_t features() const { return (shape_.head_dim + kPanel - 1) / kPanel * kPanel; }
  int64_t position(int64_t row) const { return cache_.length() + row / group(); }
  int64_t end(int64_t row) const { return position(row) + 1; }
  int64_t begin(int64_t row) const {  // the first position that the row sees, down to a panel
    const int64_t window = shape_.sliding_window;
    const int64_t first = window > 0 ? std::max<int64_t>(0, position(row) - window + 1) : 0;
    return first / kPanel * kPanel;
  }
  int64_t head_column(int64_t head, int64_t row) const {
    return (head * group() + row % group()) * shape_.head_dim;
  }

  // A slot: max, sum and weighted values of kQueryRows rows, then their packed queries. In whole
  // cache lines.
  static constexpr int64_t kMax = 0, kSum = kQueryRows, kWeighted = 2 * kQueryRows;
  int64_t query_offset() const { return kWeighted + kQueryRows * features(); }
  int64_t slot_floats() const { return query_offset() + kQueryRows * features(); }

  PackedRows pack_queries(int64_t head, int64_t first, int64_t count, float* packed) const {
    const PackedRows a = {.data = packed,
                          .rows = count,
                          .k = shape_.head_dim,
                          .k_block = shape_.head_dim,
                          .tiles = (count + kernels_.tile_rows - 1) / kernels_.tile_rows};
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    const auto row = [&](int64_t i) {
      return q_.row((first + i) / group()) + head_column(head, first + i);
    };
    for (int64_t tile = 0; tile < a.tiles; ++tile) pack_tile(a, tile, scale, row, packed);
    return a;
  }

  void compute(int64_t block, int64_t split, float* slot) const {
    const int64_t head = block / row_blocks_, first = block % row_blocks_ * kQueryRows;
    const int64_t count = std::min(kQueryRows, rows() - first);
    const int64_t first_position = begin(first) + split * kSplitPositions;
    const int64_t last = end(first + count - 1);
    kernels_.attend({.q = pack_queries(head, first, count, slot + query_offset()),
                     .keys = cache_.keys(layer_, head),
                     .values = cache_.values(layer_, head),
                     .capacity = cache_.padded_capacity(),
                     .first_row = first,
                     .group = group(),
                     .first_position = cache_.length(),
                     .window = shape_.sliding_window,
                     .begin = first_position,
                     .end = splits_ > 1 ? std::min(last, first_position + kSplitPositions) : last,
                     .max = slot + kMax,
                     .sum = slot + kSum,
                     .weighted = slot + kWeighted});
  }

  // y of a block of rows from its splits_ slots.
  void finish(int64_t block, const float* slots) const {
    const int64_t head = block / row_blocks_, first = block % row_blocks_ * kQueryRows;
    const int64_t count = std::min(kQueryRows, rows() - first);
    for (int64_t r = 0; r < count; ++r) {
      float* const out = y_.row((first + r) / group()) + head_column(head, first + r);
      finish_row(slots, r, out);
    }
  }

  void finish_row(const float* slots, int64_t r, float* out) const {
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t s = 0; s < splits_; ++s) {
      max = std::max(max, slots[s * slot_floats() + kMax + r]);
    }
    float sum = 0.0f;
    std::fill_n(out, shape_.head_dim, 0.0f);
    for (int64_t s = 0; s < splits_; ++s) {
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
  const CpuKvCache& cache_;
  const MutableMatrixView y_;
  int64_t row_blocks_ = 1, splits_ = 1;
};

}  // namespace

void attention(const Kernels& kernels, const ops::AttentionShape& shape, int64_t layer,
               ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, CpuKvCache& cache,
               Buffer<float>& scratch, MutableMatrixView y) {
  if (q.rows == 0) return;
  for_each_task(shape.num_key_value_heads, k.rows * k.columns,
                [&](int64_t head) { cache.store(layer, head, k, v); });
  Attention(kernels, shape, layer, q, cache, y).run(scratch);
}

}  // namespace neuronmm::cpu
