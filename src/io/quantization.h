#pragma once
// Weights of 8, 6 and 4 bits in a model folder: what config.json says about them and how their
// tensors are named. The whole format: docs/low_bit.md.
//
//   "neuronmm_quantization": {"bits": 4, "group_size": 16,
//                             "exceptions": {"lm_head": {"bits": 6, "group_size": 128}},
//                             "calibration": [{"name": "text.txt", "xxh3": ..., ...}]}
//
// All linear weights have the bits and groups of the entry, but for those that "exceptions" names,
// each by the last part of its module's name, or for a single layer by the path from there on
// ("layers.3.self_attn.v_proj"), which goes before. "calibration" is there where texts decided how
// they were rounded. Until 0.2 the entry was "quantization_config" with a "quant_method" of
// "neuronmm". That key belongs to transformers and vLLM, which refuse a folder whose method they do
// not have built in.
//
//   NAME        8 bits: I8 [rows, columns]
//               6 bits: U8 [rows, ceil(columns / 2) + ceil(columns / 4)]
//               4 bits: U8 [rows, ceil(columns / 2)]
//   NAME_scale  BF16 [rows, ceil(columns / 128)], finite and not negative
//   NAME_group  4 bits: U8 [rows, ceil(columns / group_size)]

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/low_bit_format.h"
#include "base/result.h"
#include "io/calibration_source.h"

namespace neuronmm::io {

class JsonFields;

inline constexpr int64_t kScaleGroupSize = 128;
inline constexpr const char* kScaleEnding = "_scale";
inline constexpr const char* kGroupEnding = "_group";

struct Quantization {
  LowBitFormat format;
  std::map<std::string, LowBitFormat, std::less<>> exceptions = {};
  std::vector<CalibrationSource> calibration = {};  // the texts that it was rounded by

  // Of a tensor, "model.layers.3.self_attn.v_proj.weight".
  const LowBitFormat& of(std::string_view tensor) const;
  bool operator==(const Quantization&) const = default;
};

// "int8", "6 bits", "4 bits in groups of 16".
std::string format_text(const LowBitFormat& format);
// The same of all; "4 bits in groups of 16, lm_head 6 bits". Of exceptions for single layers it
// says how many there are.
std::string quantization_text(const Quantization& quantization);

// What `fields` (those of config.json) say, under either key. What others write under the older one
// is refused.
Result<std::optional<Quantization>> read_quantization(const JsonFields& fields);

// The config.json text of the same model with rounded weights: every key of `original_text` kept
// but the older one.
Result<std::string> with_quantization(std::string_view original_text, const std::string& source,
                                      const Quantization& quantization = {});

// The config.json text of the same model with all weights in fp32: without either key, and with the
// other "torch_dtype" (or "dtype").
Result<std::string> without_quantization(std::string_view original_text, const std::string& source);

}  // namespace neuronmm::io
