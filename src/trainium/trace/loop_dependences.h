#pragma once
// Finds the statements of a loop's body between which values pass from one iteration to a later
// one, by the cells that they access. The vectorizer (vectorize.h) uses it to see which loops it
// may split.

#include <cstdint>
#include <vector>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

struct LoopDependences {
  // True if a statement depends on a later statement of an earlier iteration. Such a loop cannot be
  // split into one loop per statement.
  bool backward = false;
  std::vector<bool> loop_carried;  // By statement: one iteration depends on another.
};

class LoopDependenceFinder {
 public:
  LoopDependenceFinder(const InstructionList& list, const Contents& contents)
      : list_(list), contents_(contents), cells_of_(contents.instances.size()) {}

  // Finds the dependences of a loop whose iterations all have `statements` instructions.
  LoopDependences find(const ParallelLoop& loop, uint32_t statements);

 private:
  struct CellStatements {
    // The latest statement since the last write.
    int64_t writer = kNoStatement, reader = kNoStatement;
    uint32_t written_in = 0;  // The iteration.
  };
  struct TensorCells {
    uint64_t loop = 0;  // The loop that they were last used for.
    size_t first = 0;   // An index in cells_.
  };
  static constexpr int64_t kNoStatement = -1;

  CellStatements* cells(uint32_t root);
  void compare(const CellStatements& cell, bool writes, uint32_t statement, uint32_t iteration,
               LoopDependences& found) const;

  const InstructionList& list_;
  const Contents& contents_;
  std::vector<TensorCells> cells_of_;  // By root.
  std::vector<CellStatements> cells_;
  uint64_t loop_ = 0;
};

}  // namespace neuronmm::trace
