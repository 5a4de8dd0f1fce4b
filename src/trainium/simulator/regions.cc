#include "trainium/simulator/regions.h"

#include <algorithm>
#include <numeric>

namespace neuronmm::simulator {

namespace {

// A buffer with more cells is tracked more coarsely: the dimensions with most cells become one
// cell. Assumed: it bounds the work per instruction.
constexpr int64_t kMaxCells = 1 << 16;

// Makes cells so small that the slice begins on their boundaries at all loop values. The size of a
// cell must therefore divide the constant and every coefficient. The end of the slice does not
// matter. If two slices touch the same cell, both hold its first element, so they do overlap.
void restrict_extent(int64_t& extent, const tile::Slice& slice) {
  extent = std::gcd(extent, slice.start.constant);
  for (const auto& [loop, coefficient] : slice.start.terms) extent = std::gcd(extent, coefficient);
}

// Cells are numbered with the last dimension varying fastest.
void count_cells(BufferGrid& grid, const Shape& shape) {
  grid.cells = 1;
  grid.counts.assign(shape.size(), 1);
  grid.strides.assign(shape.size(), 0);
  for (size_t d = shape.size(); d-- > 0;) {
    grid.counts[d] = (shape[d] + grid.extent[d] - 1) / grid.extent[d];
    grid.strides[d] = grid.cells;
    grid.cells *= grid.counts[d];
  }
}

}  // namespace

FlatAffine::FlatAffine(const tile::Affine& affine, int64_t divisor) { add(affine, divisor, 1); }

// Adds affine / divisor * factor. The divisions are exact, because restrict_extent has chosen a
// divisor of every coefficient. Terms of one loop are merged, because evaluation is the inner loop
// of the simulation.
void FlatAffine::add(const tile::Affine& affine, int64_t divisor, int64_t factor) {
  constant_ += affine.constant / divisor * factor;
  for (const auto& [loop, coefficient] : affine.terms) {
    const auto same = std::find_if(terms_.begin(), terms_.end(),
                                   [id = loop](const auto& term) { return term.first == id; });
    const int64_t value = coefficient / divisor * factor;
    if (same != terms_.end()) {
      same->second += value;
    } else if (value != 0) {
      terms_.emplace_back(loop, value);
    }
  }
}

// Every access may cut a buffer into smaller cells. A dimension along which all accesses begin at 0
// (the gcd is 0) is one cell.
std::vector<BufferGrid> make_grids(const tile::Program& program) {
  std::vector<BufferGrid> grids(program.buffers.size());
  for (size_t b = 0; b < grids.size(); ++b) {
    grids[b].extent.assign(program.buffers[b].shape.size(), 0);
  }
  for_each_instruction(program.body, [&](const tile::Instruction& instruction) {
    for_each_access(instruction.operation, [&](const tile::Access& access, bool) {
      BufferGrid& grid = grids[static_cast<size_t>(access.buffer)];
      const Shape& shape = program.buffer(access.buffer).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        restrict_extent(grid.extent[d], access.slices[d]);
      }
    });
  });
  for (size_t b = 0; b < grids.size(); ++b) {
    const Shape& shape = program.buffers[b].shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& extent = grids[b].extent[d];
      if (extent == 0 || extent > shape[d]) extent = shape[d];
    }
    count_cells(grids[b], shape);
    // Larger cells have all real hazards and some more. They can only lengthen the simulated time,
    // while the work per instruction stays bounded.
    while (grids[b].cells > kMaxCells) {
      const auto most = std::max_element(grids[b].counts.begin(), grids[b].counts.end());
      const auto d = static_cast<size_t>(most - grids[b].counts.begin());
      grids[b].extent[d] = shape[d];
      count_cells(grids[b], shape);
    }
  }
  return grids;
}

Operand::Operand(const tile::Program& program, const tile::Access& access, const BufferGrid& grid)
    : buffer_(access.buffer) {
  const Shape& shape = program.buffer(access.buffer).shape;
  // Most axes of most accesses are one cell long and never change, so their sizes are multiplied
  // here once. axes_ holds only the other axes, which every evaluation computes again.
  for (size_t d = 0; d < shape.size(); ++d) {
    const tile::Slice& slice = access.slices[d];
    const bool tracked = grid.counts[d] > 1;
    if (tracked) first_cell_.add(slice.start, grid.extent[d], grid.strides[d]);
    const int64_t size = slice.index ? 1 : slice.size.max;
    const bool varies = !slice.index && slice.size.limit.has_value();
    if (!varies) (d == 0 ? partitions_ : free_elements_) *= size;
    if (!varies && (!tracked || size <= grid.extent[d])) continue;
    Axis axis{.max = size,
              .cell_extent = tracked ? grid.extent[d] : shape[d],
              .stride = grid.strides[d],
              .limit = -1,
              .origin = {},
              .partition = d == 0};
    if (varies) {
      axis.limit = *slice.size.limit;
      axis.origin = FlatAffine(slice.size.origin);
    }
    axes_.push_back(std::move(axis));
  }
}

// Returns where the operand is and how large it is at these loop values, in cells and in elements.
// The size of a ragged tile is `limit` minus its origin, but at most `max` and at least 0.
Operand::Extent Operand::eval(const int64_t* loop_values) const {
  Extent extent;
  extent.cells.first = first_cell_.eval(loop_values);
  extent.partitions = partitions_;
  extent.free_elements = free_elements_;
  for (const Axis& axis : axes_) {
    int64_t size = axis.max;
    if (axis.limit >= 0) {
      size = std::clamp<int64_t>(axis.limit - axis.origin.eval(loop_values), 0, axis.max);
      (axis.partition ? extent.partitions : extent.free_elements) *= size;
    }
    if (size <= axis.cell_extent) continue;
    CellBlock& cells = extent.cells;
    cells.count[cells.dimensions] = (size + axis.cell_extent - 1) / axis.cell_extent;
    cells.stride[cells.dimensions++] = axis.stride;
  }
  return extent;
}

}  // namespace neuronmm::simulator
