#include "cpu/attention_plan.h"

#include <algorithm>

namespace neuronmm::cpu {
namespace {

// The number of query rows that pass over the keys together: three tiles of AMX, or eight of 12
// rows. A block of keys and values is read from the second-level cache once for all of them. Blocks
// become smaller if there would be too few for the threads, down to kFewestRows.
constexpr int64_t kQueryRows = 96, kFewestRows = 24;

// Blocks with up to this many rows are always split. They occur in decoding, where sequences may
// have very different lengths.
constexpr int64_t kMostSplitRows = 32;

// With this many tasks per thread, no thread waits long for the last one.
constexpr int64_t kTasksPerThread = 4;

}  // namespace

AttentionPlan::AttentionPlan(const ops::AttentionShape& shape, const std::vector<NewTokens>& batch,
                             int threads)
    : shape_(shape), group_(shape.num_attention_heads / shape.num_key_value_heads) {
  const auto blocks_of = [&](int64_t rows_of_block) {
    int64_t count = 0;
    for (const NewTokens& sequence : batch) {
      count += (sequence.tokens * group_ + rows_of_block - 1) / rows_of_block;
    }
    return count * shape.num_key_value_heads;
  };
  int64_t rows = kQueryRows;
  while (rows > kFewestRows && threads > 1 && blocks_of(rows) < kTasksPerThread * threads) {
    rows /= 2;
  }
  for (size_t i = 0; i < batch.size(); ++i) add_blocks(batch[i], static_cast<int64_t>(i), rows);
  add_tasks(threads);
}

// The last blocks see most positions. They come first, because long tasks should not be the last to
// begin.
void AttentionPlan::add_blocks(const NewTokens& tokens, int64_t sequence, int64_t rows_of_block) {
  const int64_t rows = tokens.tokens * group_, heads = shape_.num_key_value_heads;
  const auto position = [&](int64_t row) { return tokens.past + row / group_; };
  for (int64_t b = (rows + rows_of_block - 1) / rows_of_block - 1; b >= 0; --b) {
    const int64_t first_row = b * rows_of_block;
    const int64_t count = std::min(rows_of_block, rows - first_row);
    const int64_t end = position(first_row + count - 1) + 1;
    // Positions before the window are masked later.
    const int64_t window = shape_.sliding_window;
    const int64_t first = window > 0 ? std::max<int64_t>(0, position(first_row) - window + 1) : 0;
    const int64_t begin = first / kKeyBlock * kKeyBlock;
    highest_ = std::max(highest_, count);
    work_ += 2 * count * (end - begin) * shape_.head_dim * heads;
    for (int64_t head = 0; head < heads; ++head) {
      blocks_.push_back({sequence, head, first_row, count, begin, end, false, 0});
    }
  }
}

void AttentionPlan::add_tasks(int threads) {
  const bool few_blocks = std::ssize(blocks_) < kTasksPerThread * threads;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    RowBlock& block = blocks_[i];
    const int64_t ranges = block.ranges();
    block.split = threads > 1 && ranges > 1 && (few_blocks || block.rows <= kMostSplitRows);
    if (block.split) {
      block.first_slot = slots_;
      slots_ += ranges;
    }
    const int64_t step = block.split ? 1 : ranges;
    for (int64_t range = 0; range < ranges; range += step) {
      tasks_.push_back({static_cast<int64_t>(i), range, range + step});
    }
  }
}

}  // namespace neuronmm::cpu
