#pragma once
// Walks a program in execution order: every Allocate and Instruction with the values of the loops
// around it. The loop nest is flattened once, so that a step costs a few nanoseconds and allocates
// nothing.
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

class Walker {
 public:
  explicit Walker(const Program& program);  // the program must outlive the walker and not change

  bool next();  // to the next Allocate or Instruction; false at the end of the program

  const Instruction* instruction() const { return steps_[at_].instruction; }  // else null
  const Allocate* allocate() const { return steps_[at_].allocate; }           // else null
  // A number for the node that is at, the same each time it is reached: 0 <= node() < num_nodes().
  int32_t node() const { return steps_[at_].node; }
  int32_t num_nodes() const { return num_nodes_; }  // Allocates and Instructions in the text
  std::span<const int64_t> loop_values() const { return loop_values_; }

 private:
  struct Step {
    const Instruction* instruction = nullptr;
    const Allocate* allocate = nullptr;
    const Loop* loop = nullptr;  // the begin or the end of a loop,
    size_t other = 0;            // and where its other side is
    int32_t node = -1;
    bool ends_program = false;
  };
  void flatten(const std::vector<Node>& body);
  void enter(const Step& begin);
  void repeat(const Step& end);

  std::vector<Step> steps_;  // steps_[0] is a place to stand before the first next()
  size_t at_ = 0;
  int32_t num_nodes_ = 0;
  std::vector<int64_t> loop_values_, trips_;  // by LoopId
};

// visit(instruction, loop values, times): each instruction once for every way in which it can
// differ, with how many times it runs so. Of every loop only the first and the last iteration are
// visited: the tiles of those between are full, as the first one's. Exact for the programs of the
// builder, and as cheap for a million iterations as for two.
using VisitDistinct =
    std::function<void(const Instruction&, std::span<const int64_t> loop_values, int64_t times)>;
void for_each_distinct(const Program& program, const VisitDistinct& visit);

// The elements that an access names at given loop values; index dimensions have size 1 and are
// kept.
struct Region {
  size_t dimensions = 0;
  std::array<int64_t, kMaxDimensions> start{}, size{};

  int64_t elements() const;
  int64_t partitions() const { return size[0]; }  // on chip
  int64_t free_elements() const;                  // on chip: per partition
};
Region evaluate(const Access& access, std::span<const int64_t> loop_values);

}  // namespace neuronmm::tile
