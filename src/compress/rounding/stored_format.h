#pragma once
// Says how a weight will be stored in the model folder, and computes the values that the folder
// will hold. The factorizations use it to compute with the values that the model will have.

#include <span>
#include <string>
#include <variant>

#include "compress/linear_algebra/linear_algebra.h"
#include "compress/rounding/quantized_formats.h"

namespace neuronmm::compress {

// A float dtype, or a format of few bits.
using StoredFormat = std::variant<DType, LowBitFormat>;

// Returns the format of a linear weight whose dtype in the checkpoint is `weight`.
StoredFormat stored_format(const WeightFormats& weights, DType weight);
// Returns the format of the map of pivots that belongs to a weight of this format.
StoredFormat map_format(const StoredFormat& weight);

// Returns the dtype of a weight in the work folder. Weights that will have few bits are kept there
// in fp32. They are rounded when they are run and when the model is written, because rounding to 6
// or 4 bits twice differs from rounding once.
DType staged_dtype(const StoredFormat& format);

// Fail if a value is NaN or infinite or beyond the range of `dtype`. The message begins with
// `where`.
Status check_range(const std::string& where, const DoubleMatrix& values, DType dtype);
Status check_range(const std::string& where, std::span<const float> values, DType dtype);

// Rounds every entry to a value of `format`.
void round_to(const StoredFormat& format, DoubleMatrix& matrix);
// Returns the values that the folder will hold for `staged`, as bytes in staged_dtype(format).
std::vector<std::byte> stored_values(const StoredFormat& format, DoubleMatrix staged);

}  // namespace neuronmm::compress
