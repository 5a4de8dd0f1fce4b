#pragma once
// How a weight will lie in the model folder, and what that makes of its values.

#include <span>
#include <string>
#include <variant>

#include "compress/linear_algebra/linear_algebra.h"
#include "compress/rounding/quantized_formats.h"

namespace neuronmm::compress {

// Of a float dtype, or rounded to few bits.
using StoredFormat = std::variant<DType, LowBitFormat>;

// Of a linear weight of dtype `weight`.
StoredFormat stored_format(const WeightFormats& weights, DType weight);
// Of the map of pivots beside a weight that is stored like this.
StoredFormat map_format(const StoredFormat& weight);

// The dtype in the work folder. What will have few bits waits there in fp32 and is rounded by those
// who run it and by the writer: rounding to 6 or 4 bits twice is not rounding once.
DType staged_dtype(const StoredFormat& format);

// An error that begins with `where` if one of these is NaN or beyond the range of `dtype`.
Status check_range(const std::string& where, const DoubleMatrix& values, DType dtype);
Status check_range(const std::string& where, std::span<const float> values, DType dtype);

void round_to(const StoredFormat& format, DoubleMatrix& matrix);
// What the folder will hold of `staged`, as values of staged_dtype(format).
std::vector<std::byte> stored_values(const StoredFormat& format, DoubleMatrix staged);

}  // namespace neuronmm::compress
