#include "io/model_config.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "io/compression_record.h"
#include "io/folder_writer.h"
#include "io/gguf.h"
#include "io/json_file.h"
#include "io/mistaken_files.h"
#include "io/quantization.h"
#include "io/rope_scaling.h"
#include "io/text_file.h"
#include "io/transformers_config.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// The limits are far above every published model. They are small enough that the bytes of a KV
// cache and of all weights fit int64_t. A layer has about 8 matrices of up to 2^44 elements.
constexpr int64_t kMaxSize = int64_t{1} << 22;
constexpr int64_t kMaxLayers = int64_t{1} << 10;
constexpr int64_t kMaxPositions = int64_t{1} << 24;
constexpr int64_t kMaxTokenId = std::numeric_limits<int32_t>::max();

// Reads a size in [1, maximum]. A missing field gives `otherwise`, or an error if there is none.
Result<int64_t> read_size(const JsonFields& fields, const std::string& key, int64_t maximum,
                          std::optional<int64_t> otherwise = {}) {
  NMM_ASSIGN(const auto given, fields.whole_number(key));
  if (!given && !otherwise) return fields.missing(key);
  const int64_t size = given.value_or(otherwise.value_or(0));
  if (size < 1 || size > maximum)
    return fields.wrong(key, fmt::format("an integer from 1 to {}", maximum));
  return size;
}

// Returns the default of transformers' configs. A field that is null means as many heads of keys
// and values as of queries, in all of them.
int64_t default_kv_heads(const json& document, const ModelConfig& config) {
  if (!document.contains("num_key_value_heads")) {
    if (config.architecture == Architecture::kMistral) return 8;
    // The default of Qwen2Config and Qwen3Config.
    if (config.architecture != Architecture::kLlama) return 32;
  }
  return config.num_attention_heads;
}

// Reads head_dim, which older configs leave out. It is then hidden_size divided by the number of
// heads, except in Qwen3.
Result<int64_t> read_head_dim(const JsonFields& fields, const ModelConfig& config) {
  // The default of Qwen3Config for any hidden_size.
  constexpr int64_t kQwen3HeadDim = 128;
  std::optional<int64_t> otherwise;
  if (config.architecture == Architecture::kQwen3) {
    otherwise = kQwen3HeadDim;
  } else if (config.hidden_size % config.num_attention_heads == 0) {
    otherwise = config.hidden_size / config.num_attention_heads;
  } else if (fields.find("head_dim") == nullptr) {
    return fail("{}: \"head_dim\" is missing and hidden_size {} is no multiple of {} heads",
                fields.source(), config.hidden_size, config.num_attention_heads);
  }
  NMM_ASSIGN(const int64_t head_dim, read_size(fields, "head_dim", kMaxSize, otherwise));
  if (head_dim % 2 != 0)
    return fail("{}: \"head_dim\": expected an even number (for RoPE), found {}", fields.source(),
                head_dim);
  if (head_dim * config.num_attention_heads > kMaxSize)
    return fail("{}: {} heads of {}: expected at most {} together", fields.source(),
                config.num_attention_heads, head_dim, kMaxSize);
  return head_dim;
}

// Sizes are checked before anything is multiplied or allocated with them.
Status read_sizes(const JsonFields& fields, const json& document, ModelConfig& config) {
  NMM_ASSIGN(config.hidden_size, read_size(fields, "hidden_size", kMaxSize));
  NMM_ASSIGN(config.intermediate_size, read_size(fields, "intermediate_size", kMaxSize));
  NMM_ASSIGN(config.num_hidden_layers, read_size(fields, "num_hidden_layers", kMaxLayers));
  NMM_ASSIGN(config.vocab_size, read_size(fields, "vocab_size", kMaxSize));
  NMM_ASSIGN(config.max_position_embeddings,
             read_size(fields, "max_position_embeddings", kMaxPositions));
  NMM_ASSIGN(config.num_attention_heads, read_size(fields, "num_attention_heads", kMaxSize));
  NMM_ASSIGN(config.num_key_value_heads, read_size(fields, "num_key_value_heads", kMaxSize,
                                                   default_kv_heads(document, config)));
  if (config.num_attention_heads % config.num_key_value_heads != 0)
    return fail("{}: num_attention_heads {} is no multiple of num_key_value_heads {}{}",
                fields.source(), config.num_attention_heads, config.num_key_value_heads,
                document.contains("num_key_value_heads") ? "" : " (the default; it is missing)");
  NMM_ASSIGN(config.head_dim, read_head_dim(fields, config));
  NMM_ASSIGN(config.rms_norm_eps, fields.number_in("rms_norm_eps", 1e-30, 1.0, 1e-6));
  NMM_ASSIGN(config.initializer_range, fields.number_in("initializer_range", 0.0, 10.0, 0.02));
  return {};
}

// Refuses what changes the computation in a way that is not implemented.
Status refuse_unsupported(const JsonFields& fields) {
  NMM_ASSIGN(const auto activation, fields.string("hidden_act"));
  // Two names of one function, as in transformers.
  if (activation && *activation != "silu" && *activation != "swish")
    return fields.wrong("hidden_act", "\"silu\" or \"swish\"");
  NMM_ASSIGN(const auto mlp_bias, fields.boolean("mlp_bias"));
  if (mlp_bias.value_or(false))
    return fail("{}: \"mlp_bias\": biases in the MLP are not supported", fields.source());
  NMM_ASSIGN(const auto rotary_factor, fields.number("partial_rotary_factor"));
  if (rotary_factor.value_or(1.0) != 1.0) return fields.wrong("partial_rotary_factor", "1");
  return {};
}

// Biases of projections are a flag in the configs of Llama and Qwen3. Qwen2 always has them for q,
// k and v, and Mistral never has any.
Status read_switches(const JsonFields& fields, ModelConfig& config) {
  NMM_ASSIGN(const auto tied, fields.boolean("tie_word_embeddings"));
  // The default of all four classes.
  config.tie_word_embeddings = tied.value_or(false);
  NMM_ASSIGN(const auto bias, fields.boolean("attention_bias"));
  switch (config.architecture) {
    case Architecture::kLlama:
    case Architecture::kQwen3:
      config.attention_bias = config.attention_output_bias = bias.value_or(false);
      break;
    case Architecture::kQwen2:
      config.attention_bias = true;
      break;
    case Architecture::kMistral:
      break;
  }
  if (config.architecture == Architecture::kQwen3) config.qk_norm = QkNorm::kPerHead;
  return {};
}

Status read_rope_into(const JsonFields& fields, ModelConfig& config) {
  NMM_ASSIGN(RopeConfig rope, read_rope(fields, config.head_dim, config.max_position_embeddings));
  config.ropes = {{rope.theta, std::move(rope.scaling), config.head_dim}};
  config.max_position_embeddings = rope.max_position_embeddings;
  return {};
}

// Returns how many layers of a Qwen model attend to a sliding window. layer_types lists the layers;
// if it is missing, they are those from max_window_layers on.
Result<int64_t> count_sliding_layers(const JsonFields& fields, const ModelConfig& config) {
  const json* types = fields.find("layer_types");
  if (types != nullptr) {
    if (!types->is_array() || static_cast<int64_t>(types->size()) != config.num_hidden_layers)
      return fields.wrong("layer_types", fmt::format("a list of {}", config.num_hidden_layers));
    for (const json& type : *types) {
      if (type != "full_attention" && type != "sliding_attention")
        return fail("{}: \"layer_types\": expected full_attention or sliding_attention, found {}",
                    fields.source(), describe_json(type));
    }
    return static_cast<int64_t>(std::count(types->begin(), types->end(), "sliding_attention"));
  }
  // The default of Qwen2Config and Qwen3Config.
  constexpr int64_t kDefaultFullLayers = 28;
  NMM_ASSIGN(const auto given, fields.integer("max_window_layers"));
  const int64_t full = given.value_or(kDefaultFullLayers);
  return config.num_hidden_layers - std::clamp<int64_t>(full, 0, config.num_hidden_layers);
}

// Reads the window, which all layers have or none, because the KV cache has one shape for all. A
// null means that there is no window. A missing field means the default, which shorter contexts do
// not reach.
Status read_sliding_window(const JsonFields& fields, const json& document, ModelConfig& config) {
  config.fill_layers({});
  // The default of MistralConfig, Qwen2Config and Qwen3Config.
  constexpr int64_t kDefaultWindow = 4096;
  const std::string key = "sliding_window";
  const bool is_null = document.contains(key) && document.at(key).is_null();
  if (config.architecture == Architecture::kLlama || is_null) return {};
  if (config.architecture != Architecture::kMistral) {
    NMM_ASSIGN(const auto used, fields.boolean("use_sliding_window"));
    if (!used.value_or(false)) return {};
    NMM_ASSIGN(const int64_t sliding, count_sliding_layers(fields, config));
    if (sliding == 0) return {};
    if (sliding != config.num_hidden_layers)
      return fail("{}: a sliding window in {} of {} layers is not supported (all or none)",
                  fields.source(), sliding, config.num_hidden_layers);
  }
  NMM_ASSIGN(const int64_t window, read_size(fields, key, kMaxPositions, kDefaultWindow));
  const bool given = fields.find(key) != nullptr;
  if (given || window < config.max_position_embeddings) config.fill_layers({.window = window});
  return {};
}

// Some files have a negative id for "none".
bool is_none(const json& id) { return id.is_number_integer() && !id.is_number_unsigned(); }

Result<int64_t> checked_token_id(const JsonFields& fields, const std::string& key,
                                 const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxTokenId)
    return fail("{}: \"{}\": expected a token id, found {}", fields.source(), key,
                describe_json(value));
  return value.get<int64_t>();
}

// The field eos_token_id is one id or a list.
Status read_special_tokens(const JsonFields& fields, ModelConfig& config) {
  if (const json* bos = fields.find("bos_token_id"); bos != nullptr && !is_none(*bos)) {
    NMM_ASSIGN(config.bos_token_id, checked_token_id(fields, "bos_token_id", *bos));
  }
  const json* eos = fields.find("eos_token_id");
  if (eos == nullptr) return {};
  const json list = eos->is_array() ? *eos : json::array({*eos});
  for (const json& value : list) {
    if (is_none(value)) continue;
    NMM_ASSIGN(const int64_t id, checked_token_id(fields, "eos_token_id", value));
    config.eos_token_ids.push_back(id);
  }
  return {};
}

// The field "torch_dtype" is called "dtype" since transformers 5.
Status read_dtype(const JsonFields& fields, ModelConfig& config) {
  const std::string key = fields.find("dtype") != nullptr ? "dtype" : "torch_dtype";
  NMM_ASSIGN(const auto name, fields.string(key));
  if (!name) return {};
  if (*name == "bfloat16") {
    config.dtype = DType::kBF16;
  } else if (*name == "float16") {
    config.dtype = DType::kF16;
  } else if (*name == "float32") {
    config.dtype = DType::kF32;
  } else {
    return fields.wrong(key, "bfloat16, float16 or float32");
  }
  return {};
}

}  // namespace

// Later parts need what earlier ones have read.
Result<ModelConfig> ModelConfig::parse(std::string_view json_text, const std::string& source) {
  NMM_ASSIGN(const json document, parse_json_object(json_text, source));
  const JsonFields fields(document, source);
  ModelConfig config;
  NMM_ASSIGN(config.architecture, read_architecture(fields));
  NMM_TRY(refuse_unsupported(fields));
  NMM_TRY(read_sizes(fields, document, config));
  NMM_TRY(read_switches(fields, config));
  NMM_TRY(read_rope_into(fields, config));
  NMM_TRY(read_sliding_window(fields, document, config));
  NMM_TRY(read_special_tokens(fields, config));
  NMM_TRY(read_dtype(fields, config));
  NMM_ASSIGN(config.compression, read_compression_record(fields, config));
  NMM_ASSIGN(config.quantization, read_quantization(fields));
  return config;
}

LayerAttention ModelConfig::attention_of(int64_t layer) const {
  if (layers.empty()) return {};
  NMM_CHECK(layer >= 0 && layer < std::ssize(layers));
  return layers[static_cast<size_t>(layer)];
}

void ModelConfig::fill_layers(const LayerAttention& attention) {
  layers.assign(static_cast<size_t>(num_hidden_layers), attention);
}

bool ModelConfig::has_window() const {
  return std::ranges::any_of(layers, [](const LayerAttention& layer) { return layer.window > 0; });
}

int64_t ModelConfig::long_rope_from() const {
  for (const RopeTable& table : ropes) {
    const auto* const longrope = std::get_if<LongRopeScaling>(&table.scaling);
    if (longrope == nullptr || longrope->long_factor.empty()) continue;
    return static_cast<int64_t>(longrope->original_max_position_embeddings);
  }
  return std::numeric_limits<int64_t>::max();
}

Result<ModelConfig> ModelConfig::load(const std::filesystem::path& config_json) {
  if (config_json.has_parent_path()) NMM_TRY(require_folder(config_json.parent_path()));
  NMM_TRY(refuse_gguf(config_json, "a model folder or its config.json"));
  NMM_TRY(refuse_missing(config_json));
  NMM_ASSIGN(const std::string text, read_text_file(config_json, kMaxConfigBytes));
  auto config = parse(strict_json(text), config_json.string());
  if (!config.ok()) return explain_parse_error(config.error(), text, config_json.string());
  return config;
}

}  // namespace neuronmm::io
