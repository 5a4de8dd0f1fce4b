#include "trainium/simulator/strided.h"

#include <utility>

namespace neuronmm::simulator {

int64_t Strided::elements() const {
  int64_t count = 1;
  for (size_t d = 0; d < dimensions; ++d) count *= size[d];
  return count;
}

bool Strided::same_shape(const Strided& other) const {
  if (dimensions != other.dimensions) return false;
  for (size_t d = 0; d < dimensions; ++d) {
    if (size[d] != other.size[d]) return false;
  }
  return true;
}

// Swaps sizes and strides. No value moves.
Strided Strided::transposed() const {
  Strided view = *this;
  std::swap(view.size[0], view.size[1]);
  std::swap(view.stride[0], view.stride[1]);
  return view;
}

Strided strided(const tile::Access& access, const tile::Region& region, const tile::Buffer& buffer,
                float* data) {
  Strided view;
  const auto strides = buffer.strides();
  for (size_t d = 0; d < region.dimensions; ++d) {
    data += region.start[d] * strides[d];
    // An indexed dimension has one element. It moves the origin and is dropped from the view.
    if (access.slices[d].index) continue;
    view.size[view.dimensions] = region.size[d];
    view.stride[view.dimensions++] = strides[d];
  }
  view.data = data;
  if (view.dimensions == 0) {  // The view has one element.
    view.dimensions = 1;
    view.size[0] = view.stride[0] = 1;
  }
  return view;
}

}  // namespace neuronmm::simulator
