#pragma once
// Int8 weights in a model folder: what config.json says about them and how their tensors are named.
// The whole format: docs/int8.md.
//
//   "neuronmm_quantization": {"bits": 8, "group_size": 128}
//
// Until 0.2 it was "quantization_config" with a "quant_method" of "neuronmm". That key belongs to
// transformers and vLLM, which refuse a folder whose method they do not have built in.
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

// Whether `fields` (those of config.json) say that weights are int8, under either key. What others
// write under the older one is refused.
Result<bool> read_quantization(const JsonFields& fields);

// The config.json text of the same model with int8 weights: every key of `original_text` kept
// but the older one.
Result<std::string> with_quantization(std::string_view original_text, const std::string& source);

}  // namespace neuronmm::io
