#include "gguf/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "gguf/dequantize.h"
#include "gguf/mlp_sizes.h"
#include "gguf/rope_scaling.h"
#include "io/families/known_keys.h"

namespace neuronmm::gguf {
namespace {

using Json = nlohmann::ordered_json;

// Reads the keys of one architecture, such as "llama.context_length".
class ArchitectureKeys final : public io::GgufFacts {
 public:
  ArchitectureKeys(const io::GgufShards& model, const GgufArchitecture& architecture)
      : model_(model),
        metadata_(model.metadata()),
        architecture_(architecture),
        prefix_(fmt::format("{}.", architecture.name)) {}

  std::string name(std::string_view key) const { return prefix_ + std::string(key); }
  const io::GgufMetadata& metadata() const { return metadata_; }
  const io::GgufFamily& gguf() const { return *architecture_.gguf; }
  Result<std::optional<double>> number(std::string_view key) const override {
    return metadata_.number(name(key));
  }
  auto string(std::string_view key) const { return metadata_.string(name(key)); }
  Result<std::optional<bool>> boolean(std::string_view key) const override {
    return metadata_.boolean(name(key));
  }
  bool has_tensor(std::string_view tensor) const override {
    return model_.tensors().contains(tensor);
  }
  Error wrong(std::string_view key, std::string_view expected) const override {
    return metadata_.wrong(name(key), expected);
  }

  // Reads an integer, or a list of integers per layer that are all the same.
  Result<std::optional<int64_t>> integer(std::string_view key) const override {
    const io::GgufValue* value = metadata_.find(name(key));
    if (value == nullptr || !value->is_array) return metadata_.integer(name(key));
    NMM_ASSIGN(const std::vector<int64_t> list, metadata_.integers(name(key)));
    if (list.empty() || std::ranges::count(list, list.front()) != std::ssize(list))
      return metadata_.wrong(name(key), "the same for all layers");
    return std::optional(list.front());
  }
  Result<int64_t> required(std::string_view key) const {
    NMM_ASSIGN(const auto value, integer(key));
    if (!value) return metadata_.missing(name(key));
    if (*value < 1) return metadata_.wrong(name(key), "an integer from 1");
    return *value;
  }
  Result<std::vector<int64_t>> integers(std::string_view key) const override {
    const io::GgufValue* value = metadata_.find(name(key));
    if (value == nullptr) return std::vector<int64_t>();
    if (value->type == io::GgufValueType::kBool) {
      std::vector<int64_t> list;
      for (const std::byte byte : value->elements) list.push_back(byte != std::byte{0} ? 1 : 0);
      return list;
    }
    if (value->is_array) return metadata_.integers(name(key));
    NMM_ASSIGN(const auto one, metadata_.integer(name(key)));
    return std::vector<int64_t>{*one};
  }
  Result<std::vector<double>> tensor(std::string_view tensor_name, int64_t count) const override {
    const auto found = model_.tensors().find(tensor_name);
    const std::string what = fmt::format("{}: tensor {:?}", metadata_.source(), tensor_name);
    if (found == model_.tensors().end()) return fail("{}: is missing", what);
    const io::GgufTensor& values = found->second;
    if (values.rows() * values.columns() != count || !can_dequantize(*values.type))
      return fail("{}: expected {} numbers of F32, found {} {}", what, count,
                  shape_string(values.shape), values.type->name);
    std::vector<float> floats(static_cast<size_t>(count));
    dequantize(*values.type, values.data.data(), count, floats.data());
    return std::vector<double>(floats.begin(), floats.end());
  }

  // Returns whether the family gives the key a meaning.
  bool is_read_by_family(std::string_view key) const {
    return std::ranges::find(gguf().keys, key) != gguf().keys.end() ||
           std::ranges::find(gguf().numbers, key, &io::GgufNumber::gguf) != gguf().numbers.end();
  }

 private:
  const io::GgufShards& model_;
  const io::GgufMetadata& metadata_;
  const GgufArchitecture& architecture_;
  std::string prefix_;
};

struct Heads {
  int64_t count, kv_count, size;
};

Result<Heads> read_heads(const ArchitectureKeys& keys, int64_t hidden_size) {
  Heads heads{};
  NMM_ASSIGN(heads.count, keys.required("attention.head_count"));
  NMM_ASSIGN(const auto kv, keys.integer("attention.head_count_kv"));
  heads.kv_count = kv.value_or(heads.count);
  NMM_ASSIGN(const auto key_length, keys.integer("attention.key_length"));
  NMM_ASSIGN(const auto value_length, keys.integer("attention.value_length"));
  if (!key_length && hidden_size % heads.count != 0)
    return fail("{}: {:?} is missing and {} is no multiple of {} heads", keys.metadata().source(),
                keys.name("attention.key_length"), hidden_size, heads.count);
  heads.size = key_length.value_or(hidden_size / heads.count);
  if (value_length && *value_length != heads.size)
    return keys.metadata().wrong(keys.name("attention.value_length"),
                                 fmt::format("{}, the length of a key", heads.size));
  NMM_ASSIGN(const auto rotary, keys.integer("rope.dimension_count"));
  if (rotary && *rotary != heads.size && !keys.gguf().own_rope)
    return keys.metadata().wrong(
        keys.name("rope.dimension_count"),
        fmt::format("{} (rotary embeddings of a part of each head are not supported)", heads.size));
  return heads;
}

// Refuses keys that change the computation unless they have a neutral value.
Status refuse_unsupported(const ArchitectureKeys& keys, const Heads& heads) {
  struct UnsupportedKey {
    std::string_view key;
    // A value that changes nothing. 0 is also allowed: for llama.cpp it means "not used".
    double neutral;
  };
  const double scale = 1.0 / std::sqrt(static_cast<double>(heads.size));
  const UnsupportedKey unsupported[] = {{"expert_count", 0},
                                        {"attention.scale", scale},
                                        {"logit_scale", 1},
                                        {"residual_scale", 1},
                                        {"embedding_scale", 1},
                                        {"attention.clamp_kqv", 0},
                                        {"attention.max_alibi_bias", 0},
                                        {"attn_logit_softcapping", 0},
                                        {"final_logit_softcapping", 0},
                                        {"nextn_predict_layers", 0}};
  for (const auto& [key, neutral] : unsupported) {
    if (keys.is_read_by_family(key)) continue;
    NMM_ASSIGN(const auto value, keys.number(key));
    if (value && *value != 0 && std::abs(*value - neutral) > 1e-5 * neutral)
      return keys.metadata().wrong(keys.name(key),
                                   fmt::format("none or {} (others are not supported)", neutral));
  }
  NMM_ASSIGN(const auto causal, keys.boolean("attention.causal"));
  if (!causal.value_or(true)) return keys.metadata().wrong(keys.name("attention.causal"), "true");
  NMM_ASSIGN(const auto parallel, keys.boolean("use_parallel_residual"));
  if (parallel.value_or(false))
    return keys.metadata().wrong(keys.name("use_parallel_residual"), "false");
  return {};
}

// Reads rope_freqs.weight, which holds the divisor of each frequency.
Result<Json> read_rope_freqs(const ArchitectureKeys& keys, double theta, int64_t head_dim,
                             std::optional<int64_t> original_context) {
  constexpr std::string_view kName = "rope_freqs.weight";
  NMM_ASSIGN(const auto values, keys.tensor(kName, head_dim / 2));
  const std::vector<float> divisors(values.begin(), values.end());
  const std::string what = fmt::format("{}: tensor {:?}", keys.metadata().source(), kName);
  NMM_ASSIGN(const auto scaling, llama3_scaling(divisors, theta, original_context, what));
  if (!scaling) return Json();
  return Json{{"rope_type", "llama3"},
              {"factor", scaling->factor},
              {"low_freq_factor", scaling->low_freq_factor},
              {"high_freq_factor", scaling->high_freq_factor},
              {"original_max_position_embeddings", scaling->original_max_position_embeddings}};
}

// Refuses what differs between llama.cpp's YaRN and that of transformers. The two agree if these
// keys have their defaults. For example, llama.cpp multiplies 0.1 log(factor) + 1 by attn_factor,
// whereas transformers replaces the expression by it.
Status refuse_unsupported_yarn(const ArchitectureKeys& keys, double factor) {
  // Files may have the value that both compute.
  const double usual = 1.0 + 0.1 * std::log(factor);
  const std::pair<std::string_view, double> defaults[] = {
      {"rope.scaling.attn_factor", 1.0},
      {"rope.scaling.yarn_attn_factor", 1.0},
      {"rope.scaling.yarn_ext_factor", 1.0},
      {"rope.scaling.yarn_log_multiplier", 0.0}};
  for (const auto& [key, expected] : defaults) {
    if (keys.is_read_by_family(key)) continue;
    NMM_ASSIGN(const auto value, keys.number(key));
    const bool same = value && key.ends_with("attn_factor") && std::abs(*value - usual) < 1e-5;
    if (value && *value != expected && !same)
      return keys.metadata().wrong(keys.name(key),
                                   fmt::format("none or {} (others are not supported)", expected));
  }
  return {};
}

Result<Json> read_yarn(const ArchitectureKeys& keys, double factor, int64_t context) {
  // As in llama.cpp, 0 counts as 1.
  if (factor == 0.0) factor = 1.0;
  NMM_TRY(refuse_unsupported_yarn(keys, factor));
  Json yarn = {
      {"rope_type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", context}};
  for (const std::string key : {"beta_fast", "beta_slow"}) {
    NMM_ASSIGN(const auto turns, keys.number("rope.scaling.yarn_" + key));
    if (turns) yarn[key] = *turns;
  }
  return yarn;
}

// Returns the rope_scaling of config.json, or null if there is none.
Result<Json> read_rope_scaling(const ArchitectureKeys& keys, double theta, int64_t head_dim,
                               int64_t context_length) {
  const io::GgufMetadata& metadata = keys.metadata();
  NMM_ASSIGN(const auto type, keys.string("rope.scaling.type"));
  NMM_ASSIGN(const auto old_factor, keys.number("rope.scale_linear"));
  NMM_ASSIGN(const auto new_factor, keys.number("rope.scaling.factor"));
  NMM_ASSIGN(const auto context, keys.integer("rope.scaling.original_context_length"));
  const double factor = new_factor.value_or(old_factor.value_or(1.0));
  // As in llama.cpp, a factor without a type is linear, and a factor of 0 means no scaling.
  const std::string name = type.value_or("linear");
  // The family reads the lists.
  if (name == "longrope" && keys.gguf().own_rope) return Json();
  if (name != "none" && name != "linear" && name != "yarn")
    return metadata.wrong(keys.name("rope.scaling.type"), "\"none\", \"linear\" or \"yarn\"");
  const bool yarn = name == "yarn";
  const bool linear = name == "linear" && factor != 0.0 && factor != 1.0;
  const bool freqs = keys.has_tensor("rope_freqs.weight");
  if (!freqs && yarn) return read_yarn(keys, factor, context.value_or(context_length));
  if (!freqs) return linear ? Json{{"rope_type", "linear"}, {"factor", factor}} : Json();
  if (linear || yarn)
    return fail("{}: {:?} and rope_freqs.weight together are not supported", metadata.source(),
                keys.name("rope.scaling.factor"));
  return read_rope_freqs(keys, theta, head_dim, context);
}

// A class of transformers that computes exactly the biases and norms that the file has.
struct ClassOfModel {
  std::string_view architecture, model_type;
  // The field of config.json. Qwen2 has no such field, because its biases are always there. Other
  // families write it themselves.
  bool attention_bias;
};
Result<ClassOfModel> choose_class(const io::GgufShards& model, const GgufArchitecture& known,
                                  bool has_window) {
  const auto has = [&](std::string_view name) { return model.tensors().contains(name); };
  const std::string_view architecture = known.name;
  const bool like_qwen3 = architecture == "qwen3" || architecture == "openelm";
  if (architecture != "llama" && architecture != "deci" && architecture != "qwen2" && !like_qwen3)
    return ClassOfModel{known.family->class_name, known.family->model_type, false};
  const bool qkv = has("blk.0.attn_q.bias"), output = has("blk.0.attn_output.bias");
  if (like_qwen3) {
    if (qkv != output)
      return fail(
          "{}: biases of q, k, v without one of the output, or the other way round, are "
          "not supported in qwen3",
          model.metadata().source());
    return ClassOfModel{"Qwen3ForCausalLM", "qwen3", qkv};
  }
  if (qkv && !output) return ClassOfModel{"Qwen2ForCausalLM", "qwen2", true};
  if (!qkv && !output && has_window) return ClassOfModel{"MistralForCausalLM", "mistral", false};
  if (has_window)
    return fail(
        "{}: a sliding window together with a bias of the attention output is not supported",
        model.metadata().source());
  if (output && !qkv)
    return fail("{}: a bias of the attention output without those of q, k and v is not supported",
                model.metadata().source());
  return ClassOfModel{"LlamaForCausalLM", "llama", qkv};
}

// Returns the sliding window, or 0 if there is none. A window as long as the context has no effect
// and counts as none.
Result<int64_t> read_window(const ArchitectureKeys& keys, int64_t context) {
  NMM_ASSIGN(const auto window, keys.integer("attention.sliding_window"));
  if (!window || *window <= 0 || *window >= context) return 0;
  if (keys.metadata().has(keys.name("attention.sliding_window_pattern")))
    return keys.metadata().wrong(keys.name("attention.sliding_window_pattern"),
                                 "none (a window in some layers is not supported)");
  return *window;
}

const char* activation_key(const io::Family& family) {
  return family.activation != io::Activation::kGeluTanh ? "hidden_act" : "hidden_activation";
}
const char* activation_name(const io::Family& family) {
  return family.activation != io::Activation::kGeluTanh ? "silu" : "gelu_pytorch_tanh";
}

Result<int64_t> read_vocab_size(const io::GgufShards& model, int64_t hidden_size) {
  const auto embedding = model.tensors().find("token_embd.weight");
  if (embedding == model.tensors().end())
    return fail("{}: tensor \"token_embd.weight\" is missing", model.metadata().source());
  const io::GgufTensor& tensor = embedding->second;
  if (tensor.shape.size() != 2 || tensor.columns() != hidden_size)
    return fail("{}: tensor \"token_embd.weight\": expected [vocabulary, {}], found {}",
                model.metadata().source(), hidden_size, shape_string(tensor.shape));
  return tensor.rows();
}

std::string_view torch_dtype(DType dtype) {
  return dtype == DType::kF32 ? "float32" : dtype == DType::kF16 ? "float16" : "bfloat16";
}

void add_token_ids(const Vocabulary* vocabulary, Json& config) {
  if (vocabulary == nullptr) return;
  if (vocabulary->bos) config["bos_token_id"] = *vocabulary->bos;
  const std::vector<int64_t> ends = vocabulary->end_ids();
  if (ends.size() == 1) config["eos_token_id"] = ends.front();
  if (ends.size() > 1) config["eos_token_id"] = ends;
  if (vocabulary->pad) config["pad_token_id"] = *vocabulary->pad;
}

// Adds a window of all layers, for the classes that have one.
Status add_window(const ArchitectureKeys& keys, int64_t window, Json& config) {
  constexpr std::string_view kWithWindow[] = {"mistral", "ministral3", "phi3", "qwen2", "qwen3"};
  const auto model_type = config.at("model_type").get<std::string>();
  if (std::ranges::find(kWithWindow, model_type) == std::end(kWithWindow)) {
    if (window == 0) return {};
    return keys.wrong("attention.sliding_window", "none (the class has no window)");
  }
  config["sliding_window"] = window == 0 ? Json() : Json(window);
  if (!model_type.starts_with("qwen")) return {};
  config["use_sliding_window"] = window != 0;
  config["max_window_layers"] = window != 0 ? 0 : config["num_hidden_layers"].get<int64_t>();
  return {};
}

// Adds what the family says about its files.
Status add_family(const ArchitectureKeys& keys, Json& config) {
  for (const auto& [gguf, key] : keys.gguf().numbers) {
    NMM_ASSIGN(const auto value, keys.number(gguf));
    // llama.cpp takes 0 as "not used".
    if (value && *value != 0.0) config[std::string(key)] = *value;
  }
  return keys.gguf().complete == nullptr ? Status() : keys.gguf().complete(keys, config);
}

// Refuses files that hold something beside a language model.
Status refuse_parts_of_models(const io::GgufMetadata& metadata) {
  NMM_ASSIGN(const auto type, metadata.string("general.type"));
  NMM_ASSIGN(const auto architecture, metadata.string("general.architecture"));
  const auto is = [&](std::string_view name) { return type == name || architecture == name; };
  if (is("clip") || is("mmproj"))
    return fail(
        "{}: is the image or audio part of a multimodal model (mmproj); import the file of its "
        "language model",
        metadata.source());
  if (is("adapter"))
    return fail(
        "{}: is a LoRA adapter; merge it into its model with llama.cpp's llama-export-lora, and "
        "import the result",
        metadata.source());
  if (is("imatrix"))
    return fail("{}: is an importance matrix (imatrix) and no model; import the file of the model",
                metadata.source());
  return {};
}

}  // namespace

Result<GgufArchitecture> find_architecture(const io::GgufMetadata& metadata) {
  NMM_TRY(refuse_parts_of_models(metadata));
  NMM_ASSIGN(const auto name, metadata.string("general.architecture"));
  if (!name) return metadata.missing("general.architecture");
  std::vector<std::string_view> known;
  for (const io::Family* family : io::families()) {
    for (const io::GgufFamily& gguf : family->gguf) {
      if (gguf.architecture == *name)
        return GgufArchitecture{gguf.architecture, gguf.names.neighbouring_pairs, family, &gguf};
      known.push_back(gguf.architecture);
    }
  }
  const std::string_view missing = io::missing_for(*name);
  return fail("{}: \"general.architecture\": {:?} is not supported{}, expected one of {}",
              metadata.source(), *name,
              missing.empty() ? "" : fmt::format(" (it needs {})", missing),
              fmt::join(known, ", "));
}

Result<std::string> config_json(const io::GgufShards& model, const GgufArchitecture& architecture,
                                const Vocabulary* vocabulary, DType dtype, bool tied) {
  constexpr double kDefaultTheta = 10000.0;  // The value that llama.cpp uses if the key is missing.
  const ArchitectureKeys keys(model, architecture);
  NMM_ASSIGN(const int64_t hidden, keys.required("embedding_length"));
  NMM_ASSIGN(const int64_t layers, keys.required("block_count"));
  MlpSizes mlps;
  if (has_mlp_sizes(architecture.name)) {
    NMM_ASSIGN(mlps, read_mlp_sizes(keys, layers));
  } else {
    NMM_ASSIGN(mlps.largest, keys.required("feed_forward_length"));
  }
  NMM_ASSIGN(const int64_t context, keys.required("context_length"));
  NMM_ASSIGN(const Heads heads, read_heads(keys, hidden));
  NMM_TRY(refuse_unsupported(keys, heads));
  NMM_ASSIGN(const auto epsilon, keys.number("attention.layer_norm_rms_epsilon"));
  if (!epsilon) return model.metadata().missing(keys.name("attention.layer_norm_rms_epsilon"));
  NMM_ASSIGN(const auto theta, keys.number("rope.freq_base"));
  NMM_ASSIGN(const Json rope_scaling,
             read_rope_scaling(keys, theta.value_or(kDefaultTheta), heads.size, context));
  int64_t window = 0;
  if (!architecture.gguf->own_windows) {
    NMM_ASSIGN(window, read_window(keys, context));
  }
  NMM_ASSIGN(const ClassOfModel type, choose_class(model, architecture, window != 0));
  NMM_ASSIGN(const int64_t vocab_size, read_vocab_size(model, hidden));
  Json config{{"architectures", Json::array({type.architecture})}, {"model_type", type.model_type}};
  if (type.model_type != "qwen2") config["attention_bias"] = type.attention_bias;
  if (type.model_type == "llama") config["mlp_bias"] = keys.has_tensor("blk.0.ffn_up.bias");
  config.update(Json{{"attention_dropout", 0.0},
                     {"head_dim", heads.size},
                     {activation_key(*architecture.family), activation_name(*architecture.family)},
                     {"hidden_size", hidden},
                     {"initializer_range", 0.02},
                     {"intermediate_size", mlps.largest},
                     {"max_position_embeddings", context},
                     {"num_attention_heads", heads.count},
                     {"num_hidden_layers", layers},
                     {"num_key_value_heads", heads.kv_count},
                     {"rms_norm_eps", *epsilon},
                     {"rope_scaling", rope_scaling},
                     {"rope_theta", theta.value_or(kDefaultTheta)},
                     {"tie_word_embeddings", tied},
                     {"torch_dtype", torch_dtype(dtype)},
                     {"use_cache", true},
                     {"vocab_size", vocab_size}});
  add_token_ids(vocabulary, config);
  if (!mlps.layers.empty()) {
    NMM_ASSIGN(config["neuronmm_compression"], compression_record(model.metadata(), mlps));
  }
  NMM_TRY(add_family(keys, config));
  if (!architecture.gguf->own_windows) NMM_TRY(add_window(keys, window, config));
  return config.dump(2) + "\n";
}

}  // namespace neuronmm::gguf
