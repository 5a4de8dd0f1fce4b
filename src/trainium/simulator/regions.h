#pragma once
// Finds quickly which parts of a buffer an instruction of a tile program touches. Every buffer is
// cut into cells: the largest grid on whose lines all accesses begin. Hazards are tracked per cell
// of an instance. A cell is what the compiler calls a tile.

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "trainium/tile/program.h"

namespace neuronmm::simulator {

// An affine expression of the loop variables whose terms lie in one short array.
class FlatAffine {
 public:
  FlatAffine() = default;
  explicit FlatAffine(const tile::Affine& affine, int64_t divisor = 1);

  void add(const tile::Affine& affine, int64_t divisor, int64_t factor);
  int64_t eval(const int64_t* loop_values) const {
    int64_t value = constant_;
    for (const auto& [loop, coefficient] : terms_) value += coefficient * loop_values[loop];
    return value;
  }

 private:
  int64_t constant_ = 0;
  std::vector<std::pair<int32_t, int64_t>> terms_;
};

// The cells of one instance of a buffer: counts[d] cells along dimension d, each with extent[d]
// elements.
struct BufferGrid {
  std::vector<int64_t> extent, counts, strides;
  int64_t cells = 1;
};
// Returns one grid per buffer of the program.
std::vector<BufferGrid> make_grids(const tile::Program& program);

// A block of cells that starts at `first`, with `count` cells along each of up to kDimensions axes.
struct CellBlock {
  static constexpr size_t kDimensions = tile::kMaxDimensions;
  int64_t first = 0;
  size_t dimensions = 0;  // The number of axes with more than one cell.
  std::array<int64_t, kDimensions> count{}, stride{};

  template <typename Visit>
  void for_each(const Visit& visit) const {
    if (dimensions == 0) return visit(first);
    walk(dimensions, first, visit);
  }

 private:
  template <typename Visit>
  void walk(size_t axis, int64_t cell, const Visit& visit) const {
    for (int64_t i = 0; i < count[axis - 1]; ++i, cell += stride[axis - 1]) {
      axis == 1 ? visit(cell) : walk(axis - 1, cell, visit);
    }
  }
};

// A prepared access. Evaluating it costs one short sum and, for ragged tiles, their sizes.
class Operand {
 public:
  Operand(const tile::Program& program, const tile::Access& access, const BufferGrid& grid);

  struct Extent {
    CellBlock cells;
    int64_t partitions = 1;     // Elements along the first dimension.
    int64_t free_elements = 1;  // Elements along the other dimensions.
  };
  tile::BufferId buffer() const { return buffer_; }
  Extent eval(const int64_t* loop_values) const;

 private:
  struct Axis {  // An axis whose size varies or that spans several cells.
    int64_t max = 1, cell_extent = 1, stride = 0;
    int64_t limit = -1;  // Negative if the size is always `max`.
    FlatAffine origin;
    bool partition = false;
  };
  tile::BufferId buffer_ = -1;
  FlatAffine first_cell_;
  int64_t partitions_ = 1, free_elements_ = 1;  // Sizes of the axes that do not vary.
  std::vector<Axis> axes_;
};

// Calls visit(access, writes) for every access of an operation, except the index of a load.
template <typename Visit>
void for_each_access(const tile::Operation& operation, const Visit& visit) {
  std::visit(
      [&](const auto& op) {
        using T = std::decay_t<decltype(op)>;
        visit(op.dst, true);
        if constexpr (std::is_same_v<T, tile::NcMatmul>) {
          visit(op.stationary, false);
          visit(op.moving, false);
        } else if constexpr (std::is_same_v<T, tile::TensorTensor>) {
          visit(op.a, false);
          visit(op.b, false);
        } else if constexpr (!std::is_same_v<T, tile::Memset>) {
          visit(op.src, false);
        }
        if constexpr (std::is_same_v<T, tile::ScaleAdd>) {
          visit(op.addend, false);
          visit(op.scale, false);
        }
      },
      operation);
}

// Calls visit(instruction) for every instruction of a loop nest, once each.
template <typename Visit>
void for_each_instruction(const std::vector<tile::Node>& body, const Visit& visit) {
  for (const tile::Node& node : body) {
    if (const auto* instruction = std::get_if<tile::Instruction>(&node)) visit(*instruction);
    if (const auto* loop = std::get_if<tile::Loop>(&node)) for_each_instruction(loop->body, visit);
  }
}

}  // namespace neuronmm::simulator
