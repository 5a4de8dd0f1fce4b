#pragma once
// A stretch of a text.

#include <cstddef>

namespace neuronmm::text {

struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace neuronmm::text
