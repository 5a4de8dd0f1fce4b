#include "model/tiny_model.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>
#include <span>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "io/families/tensor_names.h"
#include "io/quantization.h"
#include "io/safetensors_writer.h"
#include "model/tensor_specs.h"
#include "ops/owned_tensor.h"
#include "ops/quantize.h"

namespace neuronmm::model {

io::ModelConfig tiny_config(io::Architecture architecture) {
  io::ModelConfig config;
  config.architecture = architecture;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.vocab_size = 19;
  config.max_position_embeddings = 64;
  config.rms_norm_eps = 1e-5;
  config.fill_layers({.window = architecture == io::Architecture::kMistral ? 3 : 0});
  config.attention_bias = architecture == io::Architecture::kQwen2;
  if (architecture == io::Architecture::kQwen3) config.qk_norm = io::QkNorm::kPerHead;
  if (architecture == io::Architecture::kOlmo2) {
    config.qk_norm = io::QkNorm::kWholeWidth;
    config.input_norms = false;
    config.output_norms = true;
  }
  if (architecture == io::Architecture::kGemma2) {
    config.output_norms = true;
    config.gain_offset = 1.0;
    config.activation = Activation::kGeluTanh;
    config.embedding_scale = 4.0;  // the root of hidden_size
    config.score_scale = 0.5;
    config.score_cap = 5.0;
    config.logit_cap = 3.0;
    config.layers = {{.window = 3}, {}};
    config.tie_word_embeddings = true;
  }
  if (architecture == io::Architecture::kOlmoe) {
    config.qk_norm = io::QkNorm::kWholeWidth;
    config.qkv_clamp = 1.0;
    config.experts =
        io::Experts{.count = 5, .active = 2, .width = config.intermediate_size, .divided = false};
  }
  if (architecture == io::Architecture::kGptOss) {
    config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
    config.attention_sinks = true;
    config.activation = Activation::kClampedSwiglu;
    config.swiglu_clamp = {.limit = 0.8f, .alpha = 1.5f};
    config.layers = {{.window = 3}, {}};
    config.experts = io::Experts{
        .count = 7, .active = 2, .width = config.intermediate_size, .router_bias = true};
  }
  if (architecture == io::Architecture::kGranite) {
    config.embedding_scale = 3.0;
    config.score_scale = 0.5;
    config.residual_scale = 0.4;
    config.logit_divisor = 2.0;
  }
  config.dtype = DType::kF32;
  return config;
}

namespace {

// Returns `count` different numbers below `limit`, in ascending order.
std::vector<float> random_pivots(int64_t count, int64_t limit, std::mt19937_64& random) {
  std::vector<float> numbers(static_cast<size_t>(limit));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  std::ranges::shuffle(numbers, random);
  numbers.resize(static_cast<size_t>(count));
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

io::CompressionRecord tiny_record(const std::string& form, std::vector<io::MlpShape> shapes) {
  io::CompressionRecord record;
  record.method = "whitened";
  record.ratio = 0.3;
  record.align = "nearest";
  record.ranks = std::move(shapes);
  record.form = form;
  return record;
}

TestTensors random_tensors(const io::ModelConfig& config, uint64_t seed) {
  std::mt19937_64 random(seed);
  TestTensors tensors;
  const auto add = [&](const std::string& name, Shape shape, float mean, float deviation) {
    const int64_t count = TensorView{DType::kF32, shape, nullptr}.size();
    std::vector<float> values = random_values(count, random, deviation);
    for (float& value : values) value += mean;
    tensors[name] = {DType::kF32, std::move(shape), std::move(values)};
  };
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t q = config.num_attention_heads * config.head_dim;
  const int64_t kv = config.num_key_value_heads * config.head_dim;
  // Weights with a standard deviation of 0.3 keep the activations of these widths near 1.
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
    add(name, {out, in}, 0.0f, 0.3f);
  };
  // An offset of 1 is part of the mean of 1.
  const auto norm = [&](const std::string& name, int64_t size) {
    add(name, {size}, 1.0f - static_cast<float>(config.gain_offset), 0.2f);
  };

  add("model.embed_tokens.weight", {config.vocab_size, hidden}, 0.0f, 1.0f);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    if (config.input_norms) {
      norm(prefix + "input_layernorm.weight", hidden);
      norm(prefix + "post_attention_layernorm.weight", hidden);
    }
    if (config.output_norms) {
      norm(prefix + "self_attn.output_norm.weight", hidden);
      norm(prefix + "mlp.output_norm.weight", hidden);
    }
    for (const auto& [letter, out] :
         std::map<std::string, int64_t>{{"q", q}, {"k", kv}, {"v", kv}}) {
      matrix(prefix + "self_attn." + letter + "_proj.weight", out, hidden);
      if (config.attention_bias)
        add(prefix + "self_attn." + letter + "_proj.bias", {out}, 0.0f, 0.5f);
      if (config.qk_norm != io::QkNorm::kNone && letter != "v")
        norm(prefix + "self_attn." + letter + "_norm.weight",
             config.qk_norm == io::QkNorm::kWholeWidth ? out : config.head_dim);
    }
    matrix(prefix + "self_attn.o_proj.weight", hidden, q);
    if (config.attention_output_bias) add(prefix + "self_attn.o_proj.bias", {hidden}, 0.0f, 0.5f);
    if (config.attention_sinks)
      add(prefix + "self_attn.sinks", {config.num_attention_heads}, 0.0f, 1.0f);
    if (config.compression || config.is_mixture(layer)) continue;
    matrix(prefix + "mlp.gate_proj.weight", inner, hidden);
    matrix(prefix + "mlp.up_proj.weight", inner, hidden);
    matrix(prefix + "mlp.down_proj.weight", hidden, inner);
  }
  for (const io::TensorSpec& spec : tensor_specs(config)) {
    if (tensors.contains(spec.name) || spec.name.find(".mlp.") == std::string::npos) continue;
    if (spec.dtype == DType::kI32) {
      tensors[spec.name] = {spec.dtype, spec.shape, random_pivots(spec.shape[0], hidden, random)};
    } else if (spec.shape.size() == 1) {
      add(spec.name, spec.shape, 0.0f, 0.5f);
    } else {
      matrix(spec.name, spec.shape[0], spec.shape[1]);
    }
  }
  norm("model.norm.weight", hidden);
  if (!config.tie_word_embeddings) matrix("lm_head.weight", config.vocab_size, hidden);
  return tensors;
}

namespace {

ops::QuantizedWeight rounded(const TestTensor& tensor, const LowBitFormat& format) {
  const std::vector<double> values(tensor.values.begin(), tensor.values.end());
  return ops::quantize(values.data(), tensor.shape[0], tensor.shape[1], format);
}

}  // namespace

TestTensors quantized_tensors(const io::ModelConfig& config, const TestTensors& tensors,
                              const io::Quantization& quantization) {
  TestTensors rounded_tensors;
  for (const auto& [name, tensor] : tensors) {
    if (!is_linear(name, config)) {
      rounded_tensors[name] = tensor;
      continue;
    }
    const LowBitFormat& format = quantization.format_of(name);
    const ops::QuantizedWeight weight = rounded(tensor, format);
    TestTensor& values = rounded_tensors[name];
    values = {format.bits == 8 ? DType::kI8 : DType::kU8,
              {weight.rows, ops::stored_row_bytes(format, weight.columns)},
              {}};
    for (const int8_t value : weight.values) {
      values.values.push_back(format.bits == 8 ? value : static_cast<uint8_t>(value));
    }
    TestTensor& scales = rounded_tensors[name + io::kScaleEnding];
    scales = {DType::kBF16, {weight.rows, weight.groups()}, {}};
    for (const bf16 scale : weight.scales) scales.values.push_back(scale.to_float());
    if (format.bits != 4) continue;
    rounded_tensors[name + io::kGroupEnding] = {
        DType::kU8,
        {weight.rows, ops::groups_of_row(format, weight.columns)},
        {weight.multipliers.begin(), weight.multipliers.end()}};
  }
  return rounded_tensors;
}

std::vector<float> values_of(const TestTensor& tensor, const LowBitFormat& format) {
  const ops::QuantizedWeight weight = rounded(tensor, format);
  std::vector<float> values(tensor.values.size());
  for (int64_t i = 0; i < weight.rows; ++i) {
    ops::to_floats(weight.view(), i * weight.columns, weight.columns,
                   values.data() + i * weight.columns);
  }
  return values;
}

io::ModelConfig tiny_longrope_config() {
  io::ModelConfig config = tiny_config(io::Architecture::kLlama);
  config.ropes[0].scaling =
      io::LongRopeScaling{.short_factor = {1.0, 1.5, 4.0}, .attention_factor = 1.25};
  return config;
}

namespace {

// Adds the keys of switches that the model's family has.
void add_switches(const io::ModelConfig& config, nlohmann::json& json) {
  if (config.has_window()) json["sliding_window"] = config.attention_of(0).window;
  if (config.architecture == io::Architecture::kLlama) {
    json["attention_bias"] = config.attention_bias;
    json["mlp_bias"] = config.mlp_bias;
  }
  if (config.architecture == io::Architecture::kGranite) {
    json["embedding_multiplier"] = config.embedding_scale;
    json["attention_multiplier"] = config.score_scale;
    json["residual_multiplier"] = config.residual_scale;
    json["logits_scaling"] = config.logit_divisor;
  }
  if (config.experts) {
    json["num_experts"] = config.experts->count;
    json["num_experts_per_tok"] = config.experts->active;
  }
  if (config.architecture == io::Architecture::kOlmoe) {
    json["norm_topk_prob"] = config.experts->divided;
    json["clip_qkv"] = config.qkv_clamp;
  }
  if (config.architecture == io::Architecture::kGptOss) {
    json["swiglu_limit"] = config.swiglu_clamp.limit;
    json["swiglu_alpha"] = config.swiglu_clamp.alpha;
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", config.ropes[0].theta}};
  }
  if (config.architecture != io::Architecture::kGemma2) {
    json["hidden_act"] = "silu";
    return;
  }
  const auto cap = [](double value) {
    return value == 0.0 ? nlohmann::json() : nlohmann::json(value);
  };
  json["hidden_activation"] = "gelu_pytorch_tanh";
  json["query_pre_attn_scalar"] = 1.0 / (config.score_scale * config.score_scale);
  json["attn_logit_softcapping"] = cap(config.score_cap);
  json["final_logit_softcapping"] = cap(config.logit_cap);
}

}  // namespace

TestTensors stored_tensors(const io::ModelConfig& config, const TestTensors& tensors) {
  TestTensors stored;
  for (const auto& [name, tensor] : tensors) {
    stored[io::stored_name(config.architecture, name)] = tensor;
  }
  return stored;
}

std::string config_json(const io::ModelConfig& config) {
  const std::map<io::Architecture, std::string> types = {
      {io::Architecture::kLlama, "llama"},     {io::Architecture::kMistral, "mistral"},
      {io::Architecture::kQwen2, "qwen2"},     {io::Architecture::kQwen3, "qwen3"},
      {io::Architecture::kOlmo2, "olmo2"},     {io::Architecture::kGemma2, "gemma2"},
      {io::Architecture::kGranite, "granite"}, {io::Architecture::kOlmoe, "olmoe"},
      {io::Architecture::kGptOss, "gpt_oss"},  {io::Architecture::kMixtral, "mixtral"}};
  nlohmann::json json = {
      {"architectures", {std::string(io::architecture_name(config.architecture))}},
      {"model_type", types.at(config.architecture)},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocab_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {"rms_norm_eps", config.rms_norm_eps},
      {"rope_theta", config.ropes[0].theta},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"torch_dtype", "float32"}};
  add_switches(config, json);
  if (const auto* longrope = std::get_if<io::LongRopeScaling>(&config.ropes[0].scaling)) {
    json["rope_scaling"] = {{"rope_type", "longrope"},
                            {"short_factor", longrope->short_factor},
                            {"long_factor", longrope->long_factor.empty() ? longrope->short_factor
                                                                          : longrope->long_factor},
                            {"attention_factor", longrope->attention_factor.value()}};
    if (const double original = longrope->original_max_position_embeddings; original > 0.0) {
      json["rope_scaling"]["original_max_position_embeddings"] = original;
    }
  }
  std::string text = json.dump(1);
  if (config.quantization) {
    text = io::with_quantization(text, "config.json", *config.quantization).value();
  }
  if (!config.compression) return text;
  return io::with_compression_record(text, *config.compression, "config.json").value();
}

ModelFolder::ModelFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "neuronmm-model-XXXXXX").string();
  NMM_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

ModelFolder::~ModelFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ModelFolder::write_text(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
}

void ModelFolder::write_tensors(const TestTensors& tensors) const {
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype, tensor.shape});
  auto writer = io::SafetensorsWriter::create(path_ / "model.safetensors", std::move(specs));
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (const auto& [name, tensor] : tensors) {
    std::vector<std::byte> bytes;
    if (tensor.dtype == DType::kI8 || tensor.dtype == DType::kU8) {
      for (const float value : tensor.values) {
        bytes.push_back(static_cast<std::byte>(static_cast<int>(value)));
      }
    } else if (tensor.dtype == DType::kI32) {
      const std::vector<int32_t> numbers(tensor.values.begin(), tensor.values.end());
      const auto view = std::as_bytes(std::span(numbers));
      bytes.assign(view.begin(), view.end());
    } else {
      append_rounded(tensor.dtype, tensor.values.data(), static_cast<int64_t>(tensor.values.size()),
                     bytes);
    }
    const Status appended = writer->append(bytes);
    ASSERT_TRUE(appended.ok()) << appended.error().message;
  }
  const Status finished = writer->finish();
  ASSERT_TRUE(finished.ok()) << finished.error().message;
}

void ModelFolder::copy_file(const std::filesystem::path& from, const std::string& name) const {
  std::filesystem::copy_file(from, path_ / name);
}

Result<Transformer> load_tiny(const io::ModelConfig& config, const TestTensors& tensors,
                              const ops::Backend& backend) {
  const ModelFolder folder;
  folder.write_tensors(tensors);
  NMM_ASSIGN(auto checkpoint, io::Checkpoint::open(folder.path()));
  return Transformer::load(config, std::move(checkpoint), backend);
}

Matrix all_logits(const Transformer& transformer, const std::vector<TokenId>& tokens) {
  const auto cache = transformer.make_cache(static_cast<int64_t>(tokens.size()), DType::kF32);
  return transformer.forward(tokens, *cache, Transformer::Logits::kAll);
}

std::vector<TokenId> random_tokens(int64_t count, int64_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(vocab_size)));
  return tokens;
}

}  // namespace neuronmm::model
