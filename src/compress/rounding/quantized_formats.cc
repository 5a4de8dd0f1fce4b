#include "compress/rounding/quantized_formats.h"

#include "io/quantization.h"
#include "model/tensor_specs.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

QuantizedFormats quantized_formats(int bits, std::optional<int> group,
                                   std::optional<int> lm_head_bits) {
  constexpr int kGroup = 16, kHeadBitsBeside4 = 6;
  const auto format = [&](int of_bits) {
    LowBitFormat of = {.bits = of_bits};
    if (of_bits == 4) of.group = group.value_or(kGroup);
    return of;
  };
  return {format(bits), format(lm_head_bits.value_or(bits == 4 ? kHeadBitsBeside4 : bits)), {}};
}

Result<WeightFormats> weight_formats(std::optional<int> bits, std::optional<int> group,
                                     std::optional<int> lm_head_bits, OptionNames names) {
  const auto name = [&](std::string_view keyword) { return option_name(names, keyword); };
  for (const auto& [keyword, value] :
       {std::pair("bits", bits), std::pair("lm_head_bits", lm_head_bits)}) {
    if (!value || *value == 8 || *value == 6 || *value == 4) continue;
    return fail("{}: expected 8, 6 or 4, found {}", name(keyword), *value);
  }
  if (group && *group != 16 && *group != 32) {
    return fail("{}: expected 16 or 32, found {}", name("group"), *group);
  }
  const std::string found =
      bits ? fmt::format("{} {}", name("bits"), *bits) : fmt::format("no {}", name("bits"));
  if (lm_head_bits && !bits) {
    return fail("{}: only rounded weights have them, found {}", name("lm_head_bits"), found);
  }
  if (group && bits != 4 && lm_head_bits != 4) {
    return fail("{}: only weights of 4 bits have groups, found {}", name("group"), found);
  }
  return bits ? WeightFormats(quantized_formats(*bits, group, lm_head_bits)) : WeightFormats();
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
    constexpr std::string_view kMap = "_pivot_proj.weight";
    if (formats.linear == kMapFormat || !name.ends_with(kMap)) continue;
    const size_t first = name.rfind('.', name.size() - kMap.size()) + 1;
    quantization.exceptions[name.substr(first, name.rfind('.') - first)] = kMapFormat;
  }
  if (formats.lm_head != formats.linear) {
    quantization.exceptions[config.tie_word_embeddings ? "embed_tokens" : "lm_head"] =
        formats.lm_head;
  }
  return quantization;
}

std::optional<io::Quantization> quantization_of(const WeightFormats& weights,
                                                const io::ModelConfig& config) {
  if (!weights) return std::nullopt;
  std::vector<std::string> names;
  for (const io::TensorSpec& spec : model::tensor_specs(config)) names.push_back(spec.name);
  return quantization_of(*weights, config, names);
}

// A rounded matrix has its values, one bf16 scale per row and group of 128 columns and, with 4
// bits, one byte per row and group.
std::vector<io::TensorSpec> stored_specs(const io::TensorSpec& spec,
                                         const std::optional<LowBitFormat>& rounding) {
  if (!rounding) return {spec};
  const int64_t rows = spec.shape.at(0), columns = spec.shape.at(1);
  const DType dtype = rounding->bits == 8 ? DType::kI8 : DType::kU8;
  const int64_t scales = (columns + ops::kQuantGroup - 1) / ops::kQuantGroup;
  std::vector<io::TensorSpec> specs = {
      {spec.name, dtype, {rows, ops::stored_row_bytes(*rounding, columns)}},
      {spec.name + io::kScaleEnding, DType::kBF16, {rows, scales}}};
  if (rounding->bits != 4) return specs;
  specs.push_back(
      {spec.name + io::kGroupEnding, DType::kU8, {rows, ops::groups_of_row(*rounding, columns)}});
  return specs;
}

}  // namespace neuronmm::compress
