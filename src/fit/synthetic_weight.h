#pragma once
// Makes weights of any shape and format for timing. Their values have no meaning. PartTiming uses
// them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/low_bit_format.h"
#include "ops/weights.h"

namespace neuronmm::fit {

// All weights share one block of memory. A backend that packs weights makes copies of its own.
class SyntheticWeights {
 public:
  // Allocates memory for weights of up to `max_rows` rows and `max_values` values, as floats and
  // rounded.
  SyntheticWeights(int64_t max_rows, int64_t max_values, DType dtype);

  // Returns a weight. Without a `format` it has the float dtype. Larger weights are programming
  // errors (NMM_CHECK).
  ops::WeightView weight(int64_t rows, int64_t columns,
                         const std::optional<LowBitFormat>& format) const;

 private:
  int64_t max_rows_, max_values_;
  DType dtype_;
  std::vector<std::byte> floats_, codes_, groups_, scales_;
};

}  // namespace neuronmm::fit
