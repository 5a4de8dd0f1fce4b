#pragma once
// How many bits the linear weights of a model folder have, as `quantize`, `compress` and `finetune`
// are asked for them, and what config.json says of that.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/low_bit_format.h"
#include "base/option_names.h"
#include "base/result.h"
#include "io/model_config.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {

// Of all linear layers, and of the LM head (with the embedding table where the two are tied).
struct QuantizedFormats {
  LowBitFormat linear = {}, lm_head = {};
  // Of single matrices, by names as io::Quantization has them; what `quantize` alone is asked for.
  std::map<std::string, LowBitFormat, std::less<>> exceptions = {};

  bool operator==(const QuantizedFormats&) const = default;
};

// bits 8, 6 or 4. By default groups of 16, where there are 4 bits, and a head of as many bits as
// the rest, but 6 beside 4: it is a small part of the model, and its errors are those of the
// logits.
QuantizedFormats quantized_formats(int bits, std::optional<int> group = {},
                                   std::optional<int> lm_head_bits = {});

// What becomes of all linear weights, compressed or not (model::is_linear names them); nullopt:
// they keep their dtype.
using WeightFormats = std::optional<QuantizedFormats>;

// Returns what the options of a caller mean together. Without `bits` weights keep their dtype.
// Refused: bits other than 8, 6 and 4, groups other than 16 and 32, a group where nothing has 4
// bits, bits of a head beside weights that are not rounded.
Result<WeightFormats> weight_formats(std::optional<int> bits, std::optional<int> group = {},
                                     std::optional<int> lm_head_bits = {},
                                     OptionNames names = OptionNames::kKeywords);
// "original", "int8", "4 bits in groups of 16, lm_head 6 bits".
std::string weights_text(const WeightFormats& weights);
// Of models in these bits, on the hub: "int8", "4-bit".
std::string bits_tag(const LowBitFormat& format);

// Maps of pivots keep 8 bits: they are few, and their errors reach all that is made of them.
inline constexpr LowBitFormat kMapFormat = {};

// Of a model with tensors of these names.
io::Quantization quantization_of(const QuantizedFormats& formats, const io::ModelConfig& config,
                                 const std::vector<std::string>& tensors);
// Of one with the tensors that `config` says.
std::optional<io::Quantization> quantization_of(const WeightFormats& weights,
                                                const io::ModelConfig& config);

// Returns what the files of a folder hold of a tensor: itself, or its values with their scales and
// groups.
std::vector<io::TensorSpec> stored_specs(const io::TensorSpec& spec,
                                         const std::optional<LowBitFormat>& rounding);

}  // namespace neuronmm::compress
