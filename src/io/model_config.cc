#include "io/model_config.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "io/compression_record.h"
#include "io/families/family_reader.h"
#include "io/families/known_keys.h"
#include "io/folder_writer.h"
#include "io/foreign_methods.h"
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

// Reads head_dim. If it is left out and the family has no default, it is hidden_size divided by the
// number of heads.
Result<int64_t> read_head_dim(const JsonFields& fields, const ModelConfig& config) {
  std::optional<int64_t> otherwise;
  if (config.hidden_size % config.num_attention_heads == 0) {
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
// `given` is the object without defaults.
Status read_sizes(const JsonFields& fields, const json& given, ModelConfig& config) {
  NMM_ASSIGN(config.hidden_size, read_size(fields, "hidden_size", kMaxSize));
  NMM_ASSIGN(config.intermediate_size, read_size(fields, "intermediate_size", kMaxSize));
  NMM_ASSIGN(config.num_hidden_layers, read_size(fields, "num_hidden_layers", kMaxLayers));
  NMM_ASSIGN(config.vocab_size, read_size(fields, "vocab_size", kMaxSize));
  NMM_ASSIGN(config.max_position_embeddings,
             read_size(fields, "max_position_embeddings", kMaxPositions));
  NMM_ASSIGN(config.num_attention_heads, read_size(fields, "num_attention_heads", kMaxSize));
  // As in transformers, a null means as many heads of keys and values as of queries.
  NMM_ASSIGN(config.num_key_value_heads,
             read_size(fields, "num_key_value_heads", kMaxSize, config.num_attention_heads));
  if (config.num_attention_heads % config.num_key_value_heads != 0)
    return fail("{}: num_attention_heads {} is no multiple of num_key_value_heads {}{}",
                fields.source(), config.num_attention_heads, config.num_key_value_heads,
                given.contains("num_key_value_heads") ? "" : " (the default; it is missing)");
  NMM_ASSIGN(config.head_dim, read_head_dim(fields, config));
  NMM_ASSIGN(config.rms_norm_eps, fields.number_in("rms_norm_eps", 1e-30, 1.0, 1e-6));
  NMM_ASSIGN(config.initializer_range, fields.number_in("initializer_range", 0.0, 10.0, 0.02));
  return {};
}

// Reads the activation, of which the classes of a family know only one.
Status read_activation(const JsonFields& fields, const Family& family, ModelConfig& config) {
  config.activation = family.activation;
  const bool silu = family.activation != Activation::kGeluTanh;
  const std::string key = silu ? "hidden_act" : "hidden_activation";
  NMM_ASSIGN(const auto name, fields.string(key));
  if (!name) return {};
  // Two names of one function, as in transformers.
  if (silu && *name != "silu" && *name != "swish")
    return fields.wrong(key, "\"silu\" or \"swish\"");
  if (!silu && *name != "gelu_pytorch_tanh") return fields.wrong(key, "\"gelu_pytorch_tanh\"");
  return {};
}

// Only the tensors of families that stack experts are known in MXFP4.
Status refuse_mxfp4(const JsonFields& fields, const Family& family) {
  const json* const entry = fields.find("quantization_config");
  if (!family.names.stacked.empty() || entry == nullptr || !entry->is_object()) return {};
  if (entry->value("quant_method", json()) != "mxfp4") return {};
  return fail("{}: \"quantization_config\": \"quant_method\": {}", fields.source(),
              refusal_of_method("mxfp4"));
}

Status read_tied(const JsonFields& fields, ModelConfig& config) {
  NMM_ASSIGN(const auto tied, fields.boolean("tie_word_embeddings"));
  config.tie_word_embeddings = tied.value_or(false);
  config.tie_by_weights = fields.find(kTieByWeights) != nullptr;
  return {};
}

// Returns the object with the defaults of the class for the keys that it leaves out.
json with_defaults(const json& document, const Family& family) {
  json all = json::parse(family.defaults);
  for (const auto& [key, value] : document.items()) all[key] = value;
  return all;
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
  NMM_ASSIGN(const json file, parse_json_object(json_text, source));
  NMM_ASSIGN(const json document, of_one_family(file, source));
  ModelConfig config;
  NMM_ASSIGN(config.architecture, read_architecture(JsonFields(document, source)));
  const Family& family = family_of(config.architecture);
  NMM_TRY(refuse_unknown_keys(document, family, source));
  const json complete = with_defaults(document, family);
  const JsonFields fields(complete, source);
  NMM_TRY(read_activation(fields, family, config));
  NMM_TRY(read_sizes(fields, document, config));
  NMM_TRY(read_tied(fields, config));
  config.fill_layers({});
  FamilyReader reader(document, fields, config);
  NMM_TRY(family.read(reader));
  NMM_TRY(read_special_tokens(fields, config));
  NMM_TRY(read_dtype(fields, config));
  NMM_ASSIGN(config.compression, read_compression_record(fields, config));
  if (config.compression && config.experts) {
    config.experts->widths = config.compression->experts;
    config.experts->bases = config.compression->bases;
  }
  NMM_ASSIGN(config.quantization, read_quantization(fields));
  NMM_TRY(refuse_mxfp4(fields, family));
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

bool ModelConfig::is_mixture(int64_t layer) const {
  if (!experts) return false;
  return experts->dense.empty() || !experts->dense.at(static_cast<size_t>(layer));
}

Status refuse_mixtures(const ModelConfig& config, const std::string& source, std::string_view what,
                       std::string_view advice) {
  if (!config.experts) return {};
  return fail("{}: its layers are mixtures of experts, which {} does not treat yet; {}", source,
              what, advice);
}

int64_t ModelConfig::active_neurons() const {
  int64_t most = 0;
  for (int64_t layer = 0; layer < num_hidden_layers; ++layer) {
    most = std::max(most, is_mixture(layer) ? experts->active * experts->width : intermediate_size);
  }
  return most;
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
