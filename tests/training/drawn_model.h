#pragma once
// Small models whose weights follow a formula, which make_golden_gradients.py knows, too.

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/model_config.h"
#include "model/tiny_model.h"
#include "training/model.h"

namespace neuronmm::training {

// Returns 64 bits that depend on a name and a number.
inline uint64_t drawn_bits(const std::string& name, int64_t index) {
  uint64_t bits = 0xcbf29ce484222325u;
  for (const char byte : name) {
    bits = (bits ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  bits += 0x9e3779b97f4a7c15u * static_cast<uint64_t>(index + 1);
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

// Returns a number in [-1, 1) with 16 bits, which fp32 holds exactly.
inline double drawn(const std::string& name, int64_t index) {
  return static_cast<double>(drawn_bits(name, index) >> 48) / 32768.0 - 1.0;
}

// Makes the experts of a mixture smaller, as `compress` does in this form.
inline void make_experts_smaller(const std::string& form, io::ModelConfig& config) {
  io::Experts& experts = *config.experts;
  config.compression = model::tiny_record(form, std::vector<io::MlpShape>(2));
  if (form == "experts") --experts.count;
  for (int64_t layer = 0; layer < 2; ++layer) {
    if (form == "basis" || form == "mixed") {  // the second layer has one basis
      experts.bases.push_back({.input = 7, .output = layer == 0 ? 9 : 0});
    }
    if (form != "neurons" && form != "mixed") continue;
    auto& widths = experts.widths.emplace_back();
    for (int64_t e = 0; e < experts.count; ++e) {
      widths.push_back(experts.width - 1 - (e + layer) % 3);
    }
  }
  config.compression->experts = experts.widths;
  config.compression->bases = experts.bases;
}

// The cases of the script, by their names: families with their usual switches, and forms of MLPs.
// "mixtral.basis" is a mixture whose experts have this form; the script has none of these.
inline io::ModelConfig drawn_config(const std::string& name) {
  if (const size_t dot = name.find('.'); dot != std::string::npos) {
    io::ModelConfig mixture = drawn_config(name.substr(0, dot));
    make_experts_smaller(name.substr(dot + 1), mixture);
    return mixture;
  }
  using io::Architecture;
  const std::map<std::string, Architecture> families = {
      {"mistral", Architecture::kMistral}, {"qwen2", Architecture::kQwen2},
      {"qwen3", Architecture::kQwen3},     {"olmo2", Architecture::kOlmo2},
      {"gemma2", Architecture::kGemma2},   {"granite", Architecture::kGranite},
      {"mixtral", Architecture::kMixtral}, {"olmoe", Architecture::kOlmoe},
      {"gpt_oss", Architecture::kGptOss}};
  const auto family = families.find(name);
  io::ModelConfig config =
      model::tiny_config(family == families.end() ? Architecture::kLlama : family->second);
  if (name == "qwen3_moe") {
    config = model::tiny_config(Architecture::kQwen3);
    config.architecture = Architecture::kQwen3Moe;
    config.experts = io::Experts{.count = 6, .active = 3, .width = 10};
  }
  if (name == "granite_moe") {
    config = model::tiny_config(Architecture::kGranite);
    config.architecture = Architecture::kGraniteMoe;
  }
  if (name == "granite_moe" || name == "mixtral") {
    config.experts = io::Experts{.count = 4, .active = 2, .width = config.intermediate_size};
  }
  config.mlp_bias = config.mlp_bias || name == "biases" || name == "mixed";
  config.attention_bias = config.attention_bias || name == "biases";
  config.attention_output_bias = config.attention_output_bias || name == "biases";
  const std::map<std::string, std::vector<io::MlpShape>> forms = {
      {"uv", {{.gate = 5, .up = 4, .down = 6}, {.gate = 5, .up = 4, .down = 6}}},
      {"pivoted", {{.gate = 5, .up = 4, .down = 5}, {.gate = 5, .up = 4, .down = 5}}},
      {"narrow", {{.down = 5, .input = 4}, {.down = 5, .input = 4}}},
      {"neurons", {{.neurons = 13}, {.neurons = 12}}},
      {"mixed", {{.down = 5, .input = 4, .neurons = 13}, {}}}};
  if (const auto form = forms.find(name); form != forms.end()) {
    config.compression = model::tiny_record(name, form->second);
  }
  return config;
}

// Returns the tensors of a model. `prefix` stands before the names that the formula takes, so that
// a teacher has other weights.
inline model::TestTensors drawn_tensors(const io::ModelConfig& config,
                                        const std::string& prefix = "") {
  model::TestTensors tensors = model::random_tensors(config, 1);
  for (auto& [name, tensor] : tensors) {
    const int64_t count = std::ssize(tensor.values);
    const bool vector = tensor.shape.size() == 1, norm = name.ends_with("norm.weight");
    const double mean = norm ? 1.0 - config.gain_offset : 0.0, scale = vector ? 0.25 : 0.5;
    for (int64_t i = 0; i < count; ++i) {
      tensor.values[static_cast<size_t>(i)] =
          tensor.dtype == DType::kI32 ? static_cast<float>(3 * i + count % 3)
                                      : static_cast<float>(mean + scale * drawn(prefix + name, i));
    }
  }
  return tensors;
}

// Returns the config.json text, also of the two families that model::config_json() does not know.
inline std::string drawn_config_json(io::ModelConfig config) {
  using io::Architecture;
  const Architecture own = config.architecture;
  if (own == Architecture::kQwen3Moe) config.architecture = Architecture::kQwen3;
  if (own == Architecture::kGraniteMoe) config.architecture = Architecture::kGranite;
  nlohmann::json json = nlohmann::json::parse(model::config_json(config));
  json["architectures"] = {std::string(io::architecture_name(own))};
  if (own == Architecture::kGraniteMoe) json["model_type"] = "granitemoe";
  if (own == Architecture::kQwen3Moe) {
    json["model_type"] = "qwen3_moe";
    json["moe_intermediate_size"] = config.experts->width;
    json["norm_topk_prob"] = config.experts->divided;
  }
  return json.dump();
}

inline void write_drawn_model(const model::ModelFolder& folder, const io::ModelConfig& config,
                              const model::TestTensors& tensors) {
  folder.write_tensors(model::stored_tensors(config, tensors));
  std::string text = drawn_config_json(config);
  if (config.compression) {
    text = io::with_compression_record(text, *config.compression, "config.json").value();
  }
  folder.write_text("config.json", text);
}

template <typename T>
std::unique_ptr<Model<T>> open_drawn_model(const io::ModelConfig& config,
                                           const model::TestTensors& tensors,
                                           Precision precision = Precision::kFp32) {
  const model::ModelFolder folder;
  write_drawn_model(folder, config, tensors);
  auto model = Model<T>::open(folder.path(), precision);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  return std::move(model).value();
}

// Returns sequences of these lengths.
inline std::vector<TokenSequence> drawn_sequences(const std::vector<int64_t>& lengths,
                                                  int64_t vocab_size) {
  std::vector<TokenSequence> sequences;
  int64_t index = 0;
  for (const int64_t length : lengths) {
    TokenSequence& tokens = sequences.emplace_back();
    for (int64_t i = 0; i < length; ++i) {
      const uint64_t bits = drawn_bits("tokens", index++);
      tokens.push_back(static_cast<text::TokenId>(bits % static_cast<uint64_t>(vocab_size)));
    }
  }
  return sequences;
}

template <typename T>
Rows<T> drawn_rows(const std::string& name, int64_t rows, int64_t columns) {
  Rows<T> out(rows, columns);
  for (int64_t i = 0; i < out.size(); ++i) out.data()[i] = static_cast<T>(drawn(name, i));
  return out;
}

}  // namespace neuronmm::training
