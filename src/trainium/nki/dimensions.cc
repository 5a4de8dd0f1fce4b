#include "trainium/nki/dimensions.h"

#include <algorithm>
#include <numeric>

#include "trainium/tile/accesses.h"

namespace neuronmm::nki {

using tile::Access;
using tile::BufferId;
using tile::Memory;

// The analysis is a union-find. Loops and dimensions of buffers are nodes, and nodes that must run
// along the same dimension of the problem are joined. The kernel states the dimensions of its
// operands in HBM, and these label the trees. A tree with two different labels has no label.
Dimensions::Dimensions(const tile::Program& program, const Description& description)
    : program_(program) {
  auto nodes = static_cast<size_t>(program.num_loops);
  for (const tile::Buffer& buffer : program.buffers) {
    first_node_.push_back(nodes);
    nodes += buffer.shape.size();
  }
  parents_.resize(nodes);
  std::iota(parents_.begin(), parents_.end(), size_t{0});
  loops_.resize(static_cast<size_t>(program.num_loops));
  in_parts_.resize(nodes);
  find_parts(program.body);
  follow(program.body);

  labels_.resize(nodes);
  stated_.resize(nodes);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const tile::Buffer& buffer = program.buffers[b];
    const auto operand = std::find_if(description.operands.begin(), description.operands.end(),
                                      [&](const Operand& o) { return o.name == buffer.name; });
    if (buffer.memory != Memory::kHbm || operand == description.operands.end()) continue;
    for (size_t d = 0; d < operand->dimensions.size(); ++d) {
      const auto named = std::find_if(
          description.dimensions.begin(), description.dimensions.end(),
          [&](const Dimension& known) { return known.name == operand->dimensions[d]; });
      if (named == description.dimensions.end()) continue;  // It is a number, such as "1".
      const auto index = static_cast<size_t>(named - description.dimensions.begin());
      stated_[node(static_cast<BufferId>(b), d)] = index;
      std::optional<Label>& label = labels_[root(node(static_cast<BufferId>(b), d))];
      label = Label{index, label && (label->contradicted || label->dimension != index)};
    }
  }
}

std::optional<size_t> Dimensions::at(size_t node) const {
  const std::optional<Label>& label = labels_[root(node)];
  if (!label || label->contradicted) return std::nullopt;
  return label->dimension;
}

// Path compression is not needed, because the trees have only a few nodes.
size_t Dimensions::root(size_t node) const {
  while (parents_[node] != node) node = parents_[node];
  return node;
}

void Dimensions::find_parts(const std::vector<tile::Node>& body) {
  for (const tile::Node& node : body) {
    if (const auto* loop = std::get_if<tile::Loop>(&node)) {
      loops_[static_cast<size_t>(loop->id)] = loop;
      find_parts(loop->body);
    } else if (const auto* instruction = std::get_if<tile::Instruction>(&node)) {
      for (const tile::Operand& operand : tile::operands_of(instruction->operation)) {
        find_parts(*operand.access);
      }
    }
  }
}

// Marks a dimension as taken in parts if the access does not begin at its first element or does not
// reach its last one.
void Dimensions::find_parts(const Access& access) {
  const tile::Buffer& buffer = program_.buffer(access.buffer);
  if (buffer.memory != Memory::kHbm) return;
  for (size_t d = 0; d < access.slices.size(); ++d) {
    const tile::Slice& slice = access.slices[d];
    int64_t end = slice.start.constant + slice.size.max;
    for (const auto& [loop, coefficient] : slice.start.terms) {
      end += coefficient * (loops_[static_cast<size_t>(loop)]->max - 1);
    }
    const bool part = slice.start.constant > 0 || end < buffer.shape[d];
    if (part) in_parts_[node(access.buffer, d)] = true;
  }
}

// A matmul joins no nodes, because its dimensions pass through PSUM, which is reused for other
// loops.
void Dimensions::follow(const std::vector<tile::Node>& body) {
  for (const tile::Node& node : body) {
    if (const auto* loop = std::get_if<tile::Loop>(&node)) {
      follow(loop->body);
      continue;
    }
    const auto* instruction = std::get_if<tile::Instruction>(&node);
    if (!instruction) continue;
    const std::vector<tile::Operand> operands = tile::operands_of(instruction->operation);
    for (const tile::Operand& operand : operands) follow_slices(*operand.access);
    const tile::Operation& operation = instruction->operation;
    if (std::holds_alternative<tile::NcMatmul>(operation)) continue;
    const auto* dma = std::get_if<tile::DmaCopy>(&operation);
    const bool transpose =
        std::holds_alternative<tile::NcTranspose>(operation) || (dma && dma->transpose);
    for (size_t i = 1; i < operands.size(); ++i) {
      const bool moves = operands[i].role != "index" && operands[i].role != "scale";
      if (moves) follow_move(*operands[0].access, *operands[i].access, transpose);
    }
  }
}

// A loop variable in the slice of a dimension runs along that dimension if it advances there as far
// as its loop does. A variable that advances by another amount only runs at the same pace. An index
// counts tiles of the loop that advances by 1.
void Dimensions::follow_slices(const Access& access) {
  if (program_.buffer(access.buffer).memory == Memory::kPsum) return;
  for (size_t d = 0; d < access.slices.size(); ++d) {
    int64_t unit = 1;
    for (const auto& [loop, coefficient] : access.slices[d].start.terms) {
      if (coefficient == 1) unit = step_of(loop);
    }
    for (const auto& [loop, coefficient] : access.slices[d].start.terms) {
      const bool along = coefficient * unit == step_of(loop);
      if (along) join(static_cast<size_t>(loop), node(access.buffer, d));
    }
  }
}

// Elements move one to one, so the n-th dimension of the source is the n-th dimension of the
// destination, or in reverse order for a transpose. Dimensions that are indexed away do not count.
void Dimensions::follow_move(const Access& dst, const Access& src, bool transpose) {
  const auto nodes_of = [this](const Access& access) {
    std::vector<size_t> nodes;
    if (program_.buffer(access.buffer).memory == Memory::kPsum) return nodes;
    for (size_t d = 0; d < access.slices.size(); ++d) {
      if (!access.slices[d].index) nodes.push_back(node(access.buffer, d));
    }
    return nodes;
  };
  const std::vector<size_t> to = nodes_of(dst);
  std::vector<size_t> from = nodes_of(src);
  if (transpose) std::reverse(from.begin(), from.end());
  if (to.size() != from.size()) return;
  for (size_t d = 0; d < to.size(); ++d) join(to[d], from[d]);
}

}  // namespace neuronmm::nki
