#pragma once
// Which dimension of the problem (M, K, ...) each loop and each dimension of a buffer runs along.
// Known for the operands in HBM; followed from there through every slice that a loop variable
// indexes and every instruction that moves elements one to one. PSUM buffers serve many loops and
// have none. A dimension of an operand that some accesses take only a part of (the pivot columns of
// X, and those behind them) is followed no further: its parts are dimensions of their own.

#include <optional>
#include <vector>

#include "trainium/nki/emitter.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

class Dimensions {
 public:
  Dimensions(const tile::Program& program, const Description& description);

  // An index into Description::dimensions; nothing where it is not known or not one.
  std::optional<size_t> of(tile::LoopId loop) const { return at(static_cast<size_t>(loop)); }
  std::optional<size_t> of(tile::BufferId buffer, size_t dimension) const {
    const std::optional<size_t>& stated = stated_[node(buffer, dimension)];
    return stated ? stated : at(node(buffer, dimension));
  }

 private:
  size_t node(tile::BufferId buffer, size_t dimension) const {
    return first_node_[static_cast<size_t>(buffer)] + dimension;
  }
  std::optional<size_t> at(size_t node) const;
  size_t root(size_t node) const;
  void join(size_t a, size_t b) {
    if (!in_parts_[a] && !in_parts_[b]) parents_[root(a)] = root(b);
  }
  int64_t step_of(tile::LoopId loop) const { return loops_[static_cast<size_t>(loop)]->step; }
  void find_parts(const std::vector<tile::Node>& body);
  void find_parts(const tile::Access& access);
  void follow(const std::vector<tile::Node>& body);
  void follow_slices(const tile::Access& access);
  void follow_move(const tile::Access& dst, const tile::Access& src, bool transpose);

  const tile::Program& program_;
  std::vector<size_t> first_node_;  // by buffer; loops come before
  std::vector<const tile::Loop*> loops_;
  std::vector<bool> in_parts_;   // by node
  std::vector<size_t> parents_;  // a forest: the nodes of one tree run along one dimension
  struct Label {
    size_t dimension = 0;
    bool contradicted = false;
  };
  std::vector<std::optional<Label>> labels_;   // of the roots
  std::vector<std::optional<size_t>> stated_;  // of the operands, by node
};

}  // namespace neuronmm::nki
