#pragma once
// A strided view of the elements of an access, through which the interpreter moves values. A view
// is a box of runs, whose elements are step() values apart. Indexed dimensions are dropped.

#include <array>
#include <cstdint>

#include "trainium/tile/program.h"
#include "trainium/tile/walk.h"

namespace neuronmm::simulator {

struct Strided {
  float* data = nullptr;
  size_t dimensions = 0;  // At least 1. The last one is that of the runs.
  std::array<int64_t, tile::kMaxDimensions> size{}, stride{};

  int64_t rows() const { return size[0]; }  // The size of the first dimension.
  int64_t run() const { return size[dimensions - 1]; }
  int64_t step() const { return stride[dimensions - 1]; }
  int64_t elements() const;
  bool same_shape(const Strided& other) const;
  Strided transposed() const;  // The transpose of a two-dimensional view.
};

// Returns the view of a region. The region must lie inside the buffer whose values start at `data`.
Strided strided(const tile::Access& access, const tile::Region& region, const tile::Buffer& buffer,
                float* data);

// Calls body(pointers to the begin of each view's run) for all runs, in order. All views must have
// the same shape.
template <size_t kViews, typename Body>
void for_each_run(const std::array<const Strided*, kViews>& views, const Body& body) {
  const Strided& shape = *views[0];
  std::array<int64_t, tile::kMaxDimensions> index{};
  std::array<float*, kViews> run;
  for (size_t v = 0; v < kViews; ++v) run[v] = views[v]->data;
  while (true) {
    body(run);
    size_t d = shape.dimensions - 1;
    while (d > 0) {
      --d;
      for (size_t v = 0; v < kViews; ++v) run[v] += views[v]->stride[d];
      if (++index[d] < shape.size[d]) break;
      for (size_t v = 0; v < kViews; ++v) run[v] -= views[v]->stride[d] * shape.size[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (shape.dimensions == 1) return;
  }
}

}  // namespace neuronmm::simulator
