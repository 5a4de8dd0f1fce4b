#pragma once
// A range of bytes in a text, from `begin` up to but not including `end`.

#include <cstddef>

namespace neuronmm::text {

struct ByteRange {
  size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace neuronmm::text
