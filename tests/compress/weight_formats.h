#pragma once
// The weight formats that tests use.

#include "compress/rounding/quantized_formats.h"

namespace neuronmm::compress {

inline const WeightFormats kOriginal = std::nullopt, kInt8 = quantized_formats(8),
                           kInt6 = quantized_formats(6), kInt4 = quantized_formats(4);

}  // namespace neuronmm::compress
