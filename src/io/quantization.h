#pragma once
// Weights of 8, 6 and 4 bits in a model folder: what config.json says about them, and the names of
// their tensors. docs/reference/file_formats.md describes the whole format.
//
//   "neuronmm_quantization": {"bits": 4, "group_size": 16,
//                             "exceptions": {"lm_head": {"bits": 6, "group_size": 128}},
//                             "calibration": [{"name": "text.txt", "xxh3": ..., ...}]}
//
// All linear weights have the bits and groups of the entry, except for those in "exceptions". An
// embedding table that is also the LM head is a linear weight. One that is not is rounded only if
// "exceptions" names it ("embed_tokens"). An exception of 16 bits has no group_size: the module
// keeps its floats. An
// exception is named by the last part of its module's name. An exception for a single layer is
// named by the path from "layers." on ("layers.3.self_attn.v_proj") and takes precedence.
// "calibration" lists the texts that decided how the weights were rounded, if there were any.
// "reconstruction_tokens" says from how many of their tokens the layers have learnt their codes.
//
// Folders of version 0.2.0 have the entry under "quantization_config", with a "quant_method" of
// "neuronmm". That key belongs to transformers and vLLM, which refuse a folder whose method they do
// not know.
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

// Stands for weights that stay floats. Only an exception of Quantization has this format.
inline constexpr LowBitFormat kFloatFormat = {.bits = 16};

// The formats of a folder's weights.
struct Quantization {
  LowBitFormat format;
  std::map<std::string, LowBitFormat, std::less<>> exceptions = {};
  // The texts by which the weights were rounded.
  std::vector<CalibrationSource> calibration = {};
  // The tokens from which layers have learnt their codes; 0: they have not.
  int64_t reconstruction_tokens = 0;

  // Returns the format of a tensor, such as "model.layers.3.self_attn.v_proj.weight".
  const LowBitFormat& format_of(std::string_view tensor) const;
  // Returns the format of a linear weight, or nothing if it stays floats.
  std::optional<LowBitFormat> rounding_of(std::string_view tensor) const;
  bool operator==(const Quantization&) const = default;
};

// Returns "int8", "6 bits" or "4 bits in groups of 16".
std::string format_text(const LowBitFormat& format);
// Describes all formats: "4 bits in groups of 16, lm_head 6 bits". Exceptions for single layers are
// only counted.
std::string quantization_text(const Quantization& quantization);

// Reads the entry from `fields` (those of config.json), under either key. Weights of another
// program that foreign_quantization.h reads are no rounded weights here, and those that it refuses
// are an error.
Result<std::optional<Quantization>> read_quantization(const JsonFields& fields);

// Returns the config.json text of the same model with rounded weights. Every key of `original_text`
// is kept, except the older one.
Result<std::string> with_quantization(std::string_view original_text, const std::string& source,
                                      const Quantization& quantization = {});

// Returns the config.json text of the same model with all weights in fp32. Both keys are removed,
// and "torch_dtype" (or "dtype") is changed.
Result<std::string> without_quantization(std::string_view original_text, const std::string& source);

}  // namespace neuronmm::io
