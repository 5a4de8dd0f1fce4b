#pragma once
// This file walks a tile program in execution order. The interpreter, the timing model and the
// counters use it to see every Allocate and Instruction with the values of the loops around it. The
// loop nest is flattened once, so that a step costs a few nanoseconds and allocates nothing. The
// program must have passed check_structure (tile/checker.h).
//
//   for (Walker walker(program); walker.next();) {
//     if (const Instruction* instruction = walker.instruction()) ... walker.loop_values() ...
//   }

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

// A position in a program that advances node by node.
class Walker {
 public:
  // The program must outlive the walker and must not change.
  explicit Walker(const Program& program);

  // Advances to the next Allocate or Instruction. Returns false at the end of the program.
  bool next();

  // The instruction at the current position, or null.
  const Instruction* instruction() const { return steps_[at_].instruction; }
  // The Allocate node at the current position, or null.
  const Allocate* allocate() const { return steps_[at_].allocate; }
  // Returns the number of the current node, with 0 <= node() < num_nodes(). A node has the same
  // number each time the walker reaches it.
  int32_t node() const { return steps_[at_].node; }
  // The number of Allocates and Instructions in the program's text.
  int32_t num_nodes() const { return num_nodes_; }
  std::span<const int64_t> loop_values() const { return loop_values_; }

 private:
  struct Step {
    const Instruction* instruction = nullptr;
    const Allocate* allocate = nullptr;
    const Loop* loop = nullptr;  // Set if this step is the beginning or the end of a loop.
    size_t other_end = 0;        // The index of the step at the loop's other end.
    int32_t node = -1;
    bool ends_program = false;
  };
  void flatten(const std::vector<Node>& body);
  void enter(const Step& begin);
  void repeat(const Step& end);

  std::vector<Step> steps_;  // steps_[0] is the position before the first next().
  size_t at_ = 0;
  int32_t num_nodes_ = 0;
  // The current value and the trip count of each loop, by LoopId.
  std::vector<int64_t> loop_values_, trips_;
};

// The visitor's type: visit(instruction, loop values, times). `times` is how often the instruction
// runs with equal tile sizes.
using VisitDistinct =
    std::function<void(const Instruction&, std::span<const int64_t> loop_values, int64_t times)>;
// Visits each instruction once for every combination of tile sizes that it can have. Only the first
// and the last iteration of each loop are visited, because the tiles of the iterations between them
// are as full as the first one's. The result is exact for programs of the builder, and a million
// iterations cost no more than two.
void for_each_distinct(const Program& program, const VisitDistinct& visit);

// The elements that an access names at given loop values. Indexed dimensions are kept with size 1.
struct Region {
  size_t dimensions = 0;
  std::array<int64_t, kMaxDimensions> start{}, size{};

  int64_t elements() const;
  // For an on-chip buffer: the number of partitions.
  int64_t partitions() const { return size[0]; }
  int64_t free_elements() const;  // For an on-chip buffer: the elements per partition.
};
Region evaluate(const Access& access, std::span<const int64_t> loop_values);

}  // namespace neuronmm::tile
