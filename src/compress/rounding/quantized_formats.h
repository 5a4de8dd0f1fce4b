#pragma once
// The bits that the linear weights of a model folder have. The commands quantize, compress, import
// and finetune ask for them, and config.json records them.

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
#include "io/quantization.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {

// The formats of all linear layers, of the LM head and of the embedding table. If the two are tied,
// the table has the format that the caller has given for either, or else that of the head.
struct QuantizedFormats {
  LowBitFormat linear = {}, lm_head = {};
  // The formats of single matrices, by names as io::Quantization has them. Only fit sets them.
  std::map<std::string, LowBitFormat, std::less<>> exceptions = {};
  // The format of an embedding table that is not the LM head; io::kFloatFormat if it stays floats.
  LowBitFormat embedding = io::kFloatFormat;
  // Whether the caller has asked for these formats.
  bool lm_head_given = false, embedding_given = false;

  bool operator==(const QuantizedFormats&) const = default;
};

// Returns the formats for 8, 6 or 4 bits. By default 4 bits have groups of 16 weights. The head has
// as many bits as the other weights, but 6 if they have 4, since it is a small part of the model
// and its errors go straight into the logits. An embedding table of its own has 8 bits
// (docs/measurements/low_bits.md has the losses). `embedding_bits` may be 16, which stands for
// floats.
QuantizedFormats quantized_formats(int bits, std::optional<int> group = {},
                                   std::optional<int> lm_head_bits = {},
                                   std::optional<int> embedding_bits = {});

// The formats of all linear weights, compressed or not (model::is_linear names them). Without a
// value they keep their dtype.
using WeightFormats = std::optional<QuantizedFormats>;

// Returns the formats that a caller's options ask for. Without `bits` weights keep their dtype.
// Returns an error for bits other than 8, 6 and 4 (the table may have 16, too), for groups other
// than 16 and 32, for a group although nothing has 4 bits, and for bits of the head or the table if
// weights are not rounded.
Result<WeightFormats> weight_formats(std::optional<int> bits, std::optional<int> group = {},
                                     std::optional<int> lm_head_bits = {},
                                     OptionNames names = OptionNames::kKeywords,
                                     std::optional<int> embedding_bits = {});
// Returns an error if the caller has asked for different bits of the LM head and of the embedding
// table although they are one. `model` begins the message.
Status check_table(const WeightFormats& weights, const io::ModelConfig& config,
                   const std::string& model);
// Returns the format of the embedding table of this model.
LowBitFormat table_format(const QuantizedFormats& formats, const io::ModelConfig& config);
// Returns "original", "int8" or a text like "4 bits in groups of 16, lm_head 6 bits".
std::string weights_text(const WeightFormats& weights);
// Returns the tag of such a model on the Hugging Face hub: "int8" or "4-bit".
std::string bits_tag(const LowBitFormat& format);

// The format of the maps of pivots, 8 bits. Maps are small, and an error in them changes everything
// that is computed from the pivots.
inline constexpr LowBitFormat kMapFormat = {};

// Returns the record for a model with tensors of these names.
io::Quantization quantization_of(const QuantizedFormats& formats, const io::ModelConfig& config,
                                 const std::vector<std::string>& tensors);
// Returns the record for a model with the tensors that `config` implies.
std::optional<io::Quantization> quantization_of(const WeightFormats& weights,
                                                const io::ModelConfig& config);

}  // namespace neuronmm::compress
