#pragma once
// This file finds which dimension of the problem (M, K, ...) each loop and each dimension of a
// buffer runs along. expressions.h uses it to write sizes by their names.
//
// The dimensions of the operands in HBM are known. The analysis follows them through every slice
// that a loop variable indexes, and through every instruction that moves elements one to one. PSUM
// buffers serve many loops and have no dimensions. If some accesses take only a part of an
// operand's dimension, it is not followed further. Examples are the pivot columns of X and the
// columns after them, because such parts are dimensions of their own.

#include <optional>
#include <vector>

#include "trainium/nki/emitter.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

// The result of the analysis for one program.
class Dimensions {
 public:
  Dimensions(const tile::Program& program, const Description& description);

  // Returns an index into Description::dimensions, or nothing if the dimension is unknown or
  // ambiguous.
  std::optional<size_t> label_of(tile::LoopId loop) const { return at(static_cast<size_t>(loop)); }
  std::optional<size_t> label_of(tile::BufferId buffer, size_t dimension) const {
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
  // The first node of each buffer. The nodes of loops come before the nodes of buffers.
  std::vector<size_t> first_node_;
  std::vector<const tile::Loop*> loops_;
  std::vector<bool> in_parts_;   // True for nodes that some access takes only a part of.
  std::vector<size_t> parents_;  // A forest: the nodes of one tree run along one dimension.
  struct Label {
    size_t dimension = 0;
    bool contradicted = false;
  };
  std::vector<std::optional<Label>> labels_;  // The labels of the roots.
  // The dimensions that the description states for operands, by node.
  std::vector<std::optional<size_t>> stated_;
};

}  // namespace neuronmm::nki
