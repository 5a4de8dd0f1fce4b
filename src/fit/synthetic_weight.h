#pragma once
// Weights of any shape and format whose values mean nothing: for timing.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/low_bit_format.h"
#include "ops/weights.h"

namespace neuronmm::fit {

// All weights share one memory; a backend that packs them makes copies of its own.
class SyntheticWeights {
 public:
  // Room for weights of up to so many values, of a float dtype or rounded.
  SyntheticWeights(int64_t most_values, DType dtype);

  // nullopt: of the float dtype.
  ops::WeightView weight(int64_t rows, int64_t columns,
                         const std::optional<LowBitFormat>& format) const;

 private:
  DType dtype_;
  std::vector<std::byte> floats_, codes_, groups_, scales_;
};

}  // namespace neuronmm::fit
