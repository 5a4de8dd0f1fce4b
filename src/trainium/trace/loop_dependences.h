#pragma once
// Finds the dependences between different iterations of a loop. A statement is one instruction of
// the loop's body. A statement depends on one that runs before it if both access the same cell
// (accesses.h) and at least one of them writes the cell. The vectorizer (vectorize.h) asks which
// loops it may split into one loop per statement, and which statements it may then merge over all
// iterations. Nothing here can fail.

#include <cstdint>
#include <vector>

#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

// The dependences of one loop. A dependence on an earlier statement of the body does not matter,
// because splitting the loop keeps the order of the two.
struct LoopDependences {
  // True if a statement depends on a later statement of an earlier iteration. Such a loop cannot be
  // split into one loop per statement.
  bool backward = false;
  // By statement: true if the statement depends on itself in an earlier iteration. The search stops
  // at the first backward dependence, so the entries are complete only if `backward` is false.
  std::vector<bool> loop_carried;
};

// Finds the dependences of the loops of one list, one loop after the other.
class LoopDependenceFinder {
 public:
  // `contents` must be those of the list. Both arguments must outlive the object.
  LoopDependenceFinder(const InstructionList& list, const Contents& contents)
      : list_(list), contents_(contents), cells_of_(contents.instances.size()) {}

  // Finds the dependences of a loop of the list. Every iteration must have exactly `statements`
  // instructions, and instruction i of each iteration is statement i.
  LoopDependences find(const ParallelLoop& loop, uint32_t statements);

 private:
  // The accesses to one cell so far.
  struct CellStatements {
    // The statement of the last write, and the last statement in the body that has read since then.
    int64_t writer = kNoStatement, reader = kNoStatement;
    uint32_t written_in = 0;  // The iteration of the last write.
  };
  // The place of a tensor's cells in cells_.
  struct TensorCells {
    uint64_t loop = 0;  // The number of the loop for which the place is valid.
    size_t first = 0;   // The index of the first cell.
  };
  static constexpr int64_t kNoStatement = -1;

  // Returns the cells of a tensor. The pointer is valid until the next call.
  CellStatements* cells(uint32_t root);
  void compare(const CellStatements& cell, bool writes, uint32_t statement, uint32_t iteration,
               LoopDependences& found) const;

  const InstructionList& list_;
  const Contents& contents_;
  std::vector<TensorCells> cells_of_;  // By root.
  std::vector<CellStatements> cells_;
  uint64_t loop_ = 0;  // The number of the current loop, which counts the calls of find().
};

}  // namespace neuronmm::trace
