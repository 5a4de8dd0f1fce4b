#pragma once
// Int8 weights in a model folder: what config.json says about them and how their tensors are named.
// The whole format: docs/int8.md.
//
//   "quantization_config": {"quant_method": "neuronmm", "bits": 8, "group_size": 128}
//
//   NAME        I8   [rows, columns]
//   NAME_scale  BF16 [rows, ceil(columns / 128)], finite and not negative

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/json_file.h"

namespace neuronmm::io {

inline constexpr int64_t kInt8GroupSize = 128;
inline constexpr const char* kScaleEnding = "_scale";

// Whether `fields` (those of config.json) say that weights are int8. What others write under the
// same key is refused.
Result<bool> read_quantization(const JsonFields& fields);

// The config.json text of the same model with int8 weights: every key of `original_text` kept.
Result<std::string> with_quantization(std::string_view original_text, const std::string& source);

}  // namespace neuronmm::io
