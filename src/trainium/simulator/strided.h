#pragma once
// The elements of an access as the interpreter moves them: a box of runs that are contiguous in a
// buffer's values, dropped dimensions gone.

#include <array>
#include <cstdint>

#include "trainium/tile/program.h"
#include "trainium/tile/walk.h"

namespace neuronmm::simulator {

struct Strided {
  float* data = nullptr;
  size_t dimensions = 0;  // at least 1; the last one is contiguous unless `step` says otherwise
  std::array<int64_t, tile::kMaxDimensions> size{}, stride{};

  int64_t rows() const { return size[0]; }  // of the first dimension
  int64_t run() const { return size[dimensions - 1]; }
  int64_t step() const { return stride[dimensions - 1]; }
  int64_t elements() const;
  bool same_shape(const Strided& other) const;
  Strided transposed() const;  // of two dimensions
};

// The region lies inside the buffer whose values start at `data`.
Strided strided(const tile::Access& access, const tile::Region& region, const tile::Buffer& buffer,
                float* data);

// body(offset of each view's run): for all runs of views of one shape, in order.
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
