#include "compress/rounding/quantized_formats.h"

#include "io/quantization.h"
#include "model/tensor_specs.h"
#include "ops/low_bit.h"
#include "ops/weights.h"

namespace neuronmm::compress {

QuantizedFormats quantized_formats(int bits, std::optional<int> group,
                                   std::optional<int> lm_head_bits,
                                   std::optional<int> embedding_bits) {
  constexpr int kGroup = 16, kHeadBitsBeside4 = 6, kTableBits = 8;
  const auto format = [&](int of_bits) {
    LowBitFormat of = {.bits = of_bits};
    if (of_bits == 4) of.group = group.value_or(kGroup);
    return of;
  };
  return {.linear = format(bits),
          .lm_head = format(lm_head_bits.value_or(bits == 4 ? kHeadBitsBeside4 : bits)),
          .embedding = format(embedding_bits.value_or(kTableBits)),
          .lm_head_given = lm_head_bits.has_value(),
          .embedding_given = embedding_bits.has_value()};
}

Result<WeightFormats> weight_formats(std::optional<int> bits, std::optional<int> group,
                                     std::optional<int> lm_head_bits, OptionNames names,
                                     std::optional<int> embedding_bits) {
  const auto name = [&](std::string_view keyword) { return option_name(names, keyword); };
  for (const auto& [keyword, value] :
       {std::pair("bits", bits), std::pair("lm_head_bits", lm_head_bits)}) {
    if (!value || *value == 8 || *value == 6 || *value == 4) continue;
    return fail("{}: expected 8, 6 or 4, found {}", name(keyword), *value);
  }
  const auto is_table_format = [](int value) {
    return value == 16 || value == 8 || value == 6 || value == 4;
  };
  if (embedding_bits && !is_table_format(*embedding_bits)) {
    return fail("{}: expected 16, 8, 6 or 4, found {}", name("embedding_bits"), *embedding_bits);
  }
  if (group && *group != 16 && *group != 32) {
    return fail("{}: expected 16 or 32, found {}", name("group"), *group);
  }
  const std::string found =
      bits ? fmt::format("{} {}", name("bits"), *bits) : fmt::format("no {}", name("bits"));
  for (const auto& [keyword, value] :
       {std::pair("lm_head_bits", lm_head_bits), std::pair("embedding_bits", embedding_bits)}) {
    if (!value || bits) continue;
    return fail("{}: only rounded weights have them, found {}", name(keyword), found);
  }
  if (group && bits != 4 && lm_head_bits != 4 && embedding_bits != 4) {
    return fail("{}: only weights of 4 bits have groups, found {}", name("group"), found);
  }
  if (!bits) return WeightFormats();
  return WeightFormats(quantized_formats(*bits, group, lm_head_bits, embedding_bits));
}

Status check_table(const WeightFormats& weights, const io::ModelConfig& config,
                   const std::string& model) {
  if (!weights || !config.tie_word_embeddings) return {};
  if (!weights->lm_head_given || !weights->embedding_given) return {};
  if (weights->lm_head.bits == weights->embedding.bits) return {};
  return fail(
      "{}: its embedding table is its LM head, so both have the same bits; found {} for the table "
      "and {} for the head, give one of them",
      model, weights->embedding.bits, weights->lm_head.bits);
}

LowBitFormat table_format(const QuantizedFormats& formats, const io::ModelConfig& config) {
  if (!config.tie_word_embeddings) return formats.embedding;
  return formats.embedding_given && !formats.lm_head_given ? formats.embedding : formats.lm_head;
}

std::string weights_text(const WeightFormats& weights) {
  if (!weights) return "original";
  io::Quantization quantization = {weights->linear};
  if (weights->lm_head != weights->linear) quantization.exceptions["lm_head"] = weights->lm_head;
  return io::quantization_text(quantization);
}

std::string bits_tag(const LowBitFormat& format) {
  return format.bits == 8 ? "int8" : fmt::format("{}-bit", format.bits);
}

io::Quantization quantization_of(const QuantizedFormats& formats, const io::ModelConfig& config,
                                 const std::vector<std::string>& tensors) {
  io::Quantization quantization = {formats.linear, formats.exceptions};
  for (const std::string& name : tensors) {
    const bool shared =
        name.ends_with("_pivot_proj.weight") || name.ends_with("_basis_proj.weight");
    if (formats.linear == kMapFormat || !shared) continue;
    const size_t first = name.rfind('.', name.rfind('.') - 1) + 1;
    quantization.exceptions[name.substr(first, name.rfind('.') - first)] = kMapFormat;
  }
  const LowBitFormat table = table_format(formats, config);
  if (config.tie_word_embeddings) {
    if (table != formats.linear) quantization.exceptions["embed_tokens"] = table;
    return quantization;
  }
  if (formats.lm_head != formats.linear) quantization.exceptions["lm_head"] = formats.lm_head;
  if (table != io::kFloatFormat) quantization.exceptions["embed_tokens"] = table;
  return quantization;
}

std::optional<io::Quantization> quantization_of(const WeightFormats& weights,
                                                const io::ModelConfig& config) {
  if (!weights) return std::nullopt;
  std::vector<std::string> names;
  for (const io::TensorSpec& spec : model::tensor_specs(config)) names.push_back(spec.name);
  return quantization_of(*weights, config, names);
}

}  // namespace neuronmm::compress
