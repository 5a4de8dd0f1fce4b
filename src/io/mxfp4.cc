#include "io/mxfp4.h"

#include <cmath>

#include "base/result.h"

namespace neuronmm::io {

const std::array<int8_t, 16>& Mxfp4Matrix::table() const { return kE2M1Doubled; }

std::shared_ptr<const std::vector<int32_t>> Mxfp4Matrix::groups_of(int64_t columns) {
  NMM_CHECK(columns % kMxfp4Group == 0);
  std::vector<int32_t> groups(static_cast<size_t>(columns));
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int32_t>(i / kMxfp4Group);
  return std::make_shared<const std::vector<int32_t>>(std::move(groups));
}

void Mxfp4Matrix::codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const {
  const std::byte* const stored = codes_ + (first_ + row * step_) * (columns() / 2);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t column = first + i;
    const auto byte = std::to_integer<unsigned>(stored[column / 2]);
    out[i] = static_cast<uint8_t>(column % 2 == 0 ? byte & 15 : byte >> 4);
  }
}

void Mxfp4Matrix::grid(int64_t row, float* scales, float* zeros) const {
  const std::byte* const stored = scales_ + (first_ + row * step_) * groups();
  for (int64_t g = 0; g < groups(); ++g) {
    scales[g] = std::ldexp(1.0f, std::to_integer<int>(stored[g]) - 128);
    zeros[g] = 0.0f;
  }
}

}  // namespace neuronmm::io
