#pragma once
// How one call of attention is divided into tasks: blocks of query rows, and ranges of the
// positions that they see. attention.cc runs the tasks. The plan depends only on shapes and on the
// number of threads, so tests can count its tasks for any number of cores.

#include <cstdint>
#include <vector>

#include "cpu/kv_cache.h"
#include "ops/attention.h"

namespace neuronmm::cpu {

// The number of positions in a range. It is part of the result: every row is computed range by
// range, and the ranges are added up in their order. Shorter ranges give more tasks in decoding.
inline constexpr int64_t kRangePositions = 2 * kKeyBlock;

// The new tokens of one sequence: how many it has seen, how many are new, and the first row that
// they take in the batch. The rows of a key/value head are its queries, token by token: row t is
// head t % group of token t / group.
struct NewTokens {
  int64_t past, first_token, tokens;
};

// A block of rows of one key/value head.
struct RowBlock {
  int64_t sequence;  // its number in the batch
  int64_t head, first_row, rows;
  // Positions that some row sees; begin is rounded down to a block of the cache.
  int64_t begin, end;
  // If it is split, every range is a task and leaves its result in a slot of its own, from
  // first_slot on. Otherwise all ranges are one task.
  bool split;
  int64_t first_slot;

  int64_t first_range() const { return begin / kRangePositions; }
  int64_t ranges() const { return (end - 1) / kRangePositions + 1 - first_range(); }
};

struct AttentionTask {
  int64_t block, first_range, end_range;  // ranges of the block, counted from its first
};

// The blocks and tasks of one call. A token's result has the same bits whatever the plan is:
// whether it comes alone or with others of its sequence, in which batch, and on how many threads.
// Ranges begin at multiples of kRangePositions, and positions that a row does not see add nothing.
class AttentionPlan {
 public:
  AttentionPlan(const ops::AttentionShape& shape, const std::vector<NewTokens>& batch, int threads);

  const std::vector<RowBlock>& blocks() const { return blocks_; }
  const std::vector<AttentionTask>& tasks() const { return tasks_; }
  int64_t slots() const { return slots_; }            // of all split blocks
  int64_t highest_block() const { return highest_; }  // the largest number of rows of a block
  int64_t work() const { return work_; }              // in multiply-adds

 private:
  void add_blocks(const NewTokens& tokens, int64_t sequence, int64_t rows_of_block);
  void add_tasks(int threads);

  const ops::AttentionShape shape_;
  const int64_t group_;  // query heads per key/value head
  std::vector<RowBlock> blocks_;
  std::vector<AttentionTask> tasks_;
  int64_t slots_ = 0, highest_ = 0, work_ = 0;
};

}  // namespace neuronmm::cpu
