#include "io/model_folder.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/coded_values.h"
#include "base/notices.h"
#include "base/parallel.h"
#include "io/families/family_reader.h"
#include "io/file_identity.h"
#include "io/json_file.h"
#include "io/model_files.h"
#include "io/ordered_json.h"
#include "io/transformers_config.h"
#include "io/twin_tables.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHead = "lm_head.weight";

// Returns the dtype whose rounding errors the values of a table have. Blocks of few bits are exact
// floats.
DType values_dtype(const TensorView& table) {
  if (table.foreign == nullptr) return table.dtype;
  return table.foreign->name() == "F16" ? DType::kF16 : DType::kF32;
}

TableRows rows_of(const std::string& name, const TensorView& table) {
  return {name,
          [&table](int64_t row, float* out) {
            to_floats(table, row * table.columns(), table.columns(), out);
          },
          values_dtype(table)};
}

// Returns whether the tensor is a table of floats that the config describes. A table that another
// program has rounded is none, because it has values of its own.
bool is_table(const Checkpoint& checkpoint, const std::string& name, const ModelConfig& config) {
  const auto found = checkpoint.tensors().find(name);
  return found != checkpoint.tensors().end() && is_float(found->second.dtype) &&
         coded_values(found->second) == nullptr &&
         found->second.shape == Shape{config.vocab_size, config.hidden_size};
}

// Returns whether both tables have the same bytes. That is ten times as fast as comparing numbers,
// and needs no search for grids.
bool same_bytes(const TensorView& a, const TensorView& b) {
  if (type_name(a) != type_name(b) || a.size_bytes() != b.size_bytes()) return false;
  const int64_t row_bytes = a.size_bytes() / a.rows();
  std::atomic<bool> same = true;
  parallel_ranges(a.rows(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end && same; ++row) {
      const auto at = static_cast<size_t>(row * row_bytes);
      if (std::memcmp(a.data + at, b.data + at, static_cast<size_t>(row_bytes)) != 0) same = false;
    }
  });
  return same;
}

// Holds what this process has found out about the tables of each state of a folder. A command opens
// a model several times, and comparing two tables reads all of both.
class KnownTwins {
 public:
  using Compare = std::function<std::optional<TwinTables>()>;

  std::optional<TwinTables> get(const fs::path& folder, const Compare& compare) {
    const auto identity = folder_identity(folder);
    if (!identity.ok()) return compare();
    constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
    const std::string key = identity->dump(-1, ' ', false, kReplace);
    const std::scoped_lock lock(mutex_);
    const auto found = known_.find(key);
    return found != known_.end() ? found->second : known_[key] = compare();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::optional<TwinTables>> known_;
};

KnownTwins& known_twins() {
  static KnownTwins known;
  return known;
}

// Returns the layers that have tensors which a forward pass reads. Old exports have rotary
// frequencies in each layer. A layer with an "eh_proj" predicts several tokens at once; it follows
// the layers of the model and is ignored, as transformers does.
std::set<int64_t> layers_of(const Checkpoint& checkpoint) {
  std::set<int64_t> layers, of_several_tokens;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto layer = layer_of(name);
    if (!layer || name.ends_with(".rotary_emb.inv_freq")) continue;
    layers.insert(*layer);
    if (name.ends_with(".eh_proj.weight")) of_several_tokens.insert(*layer);
  }
  for (const int64_t layer : of_several_tokens) layers.erase(layer);
  return layers;
}

Status check_layers(const ModelConfig& config, const Checkpoint& checkpoint) {
  const std::set<int64_t> layers = layers_of(checkpoint);
  const int64_t expected = config.num_hidden_layers;
  if (layers.empty()) return {};
  if (*layers.rbegin() >= expected)
    return fail(
        "{}: config.json has num_hidden_layers {}, but the weights have layers up to number {} "
        "({} layers); one of the two belongs to another model",
        checkpoint.folder().string(), expected, *layers.rbegin(), layers.size());
  if (std::ssize(layers) == expected) return {};
  int64_t missing = 0;
  while (layers.contains(missing)) ++missing;
  return fail(
      "{}: config.json has num_hidden_layers {}, but the weights have {} layers: layer {} is "
      "missing (an incomplete download?)",
      checkpoint.folder().string(), expected, layers.size(), missing);
}

Status check_rows(const ModelConfig& config, const Checkpoint& checkpoint) {
  for (const char* name : {"model.embed_tokens.weight", "embed_tokens.weight", kHead}) {
    const auto found = checkpoint.tensors().find(name);
    if (found == checkpoint.tensors().end() || found->second.shape.size() != 2) continue;
    const int64_t rows = found->second.rows();
    if (rows == config.vocab_size) continue;
    return fail("{}: config.json has vocab_size {}, but {} has {} rows",
                checkpoint.folder().string(), config.vocab_size, name, rows);
  }
  return {};
}

// No architecture that is read has such a bias, and without it the model would be another one.
Status refuse_biases(const Checkpoint& checkpoint) {
  for (const char* name : {"lm_head.bias", "model.norm.bias", "norm.bias"}) {
    if (checkpoint.has(name))
      return fail("{}: tensor {:?}: biases of the last norm and of the LM head are not supported",
                  checkpoint.folder().string(), name);
  }
  return {};
}

// Recognizes weights of other programs whose config.json does not tell.
Status refuse_other_weights(const Checkpoint& checkpoint) {
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {".lora_A.weight", "a LoRA adapter; name its folder with --adapter"},
      {".lora_A.default.weight", "a LoRA adapter; name its folder with --adapter"},
      {".qweight",
       "weights of GPTQ or AWQ, but no quantization_config in config.json; download the folder "
       "again, or use the original model with float weights"},
      {".weight_packed",
       "weights of compressed-tensors, but no quantization_config in config.json; download the "
       "folder again, or use the original model"},
      {".weight_scale_inv", "weights of 8-bit floats; use the original model or dequantize it"},
      {".SCB", "weights of bitsandbytes; use the original model with float weights"}};
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    for (const auto& [ending, text] : kEndings) {
      if (name.ends_with(ending))
        return fail("{}: tensor {:?}: expected weights as transformers writes them, found {}",
                    checkpoint.folder().string(), name, text);
    }
  }
  return {};
}

}  // namespace

Status check_agreement(const ModelConfig& config, const Checkpoint& checkpoint) {
  NMM_TRY(refuse_other_weights(checkpoint));
  NMM_TRY(check_layers(config, checkpoint));
  NMM_TRY(check_rows(config, checkpoint));
  return refuse_biases(checkpoint);
}

void tie_twins(ModelConfig& config, Checkpoint& checkpoint) {
  if (config.tie_by_weights) config.tie_word_embeddings = !checkpoint.has(kHead);
  if (checkpoint.untied()) config.tie_word_embeddings = false;
  if (config.tie_word_embeddings || config.quantization) return;
  const std::string table =
      checkpoint.has("embed_tokens.weight") ? "embed_tokens.weight" : "model.embed_tokens.weight";
  if (!is_table(checkpoint, table, config) || !is_table(checkpoint, kHead, config)) return;
  // A tensor that an adapter has changed is no copy, and its bytes are not in memory.
  if (checkpoint.adapted(table) || checkpoint.adapted(kHead)) return;
  const TensorView &a = checkpoint.tensors().at(table), &b = checkpoint.tensors().at(kHead);
  const TableRows first = rows_of(table, a), second = rows_of(kHead, b);
  const auto twins = known_twins().get(checkpoint.folder(), [&] {
    auto found = same_bytes(a, b)
                     ? std::optional(TwinTables())
                     : find_twins(first, second, config.vocab_size, config.hidden_size);
    checkpoint.release_pages();
    return found;
  });
  if (!twins) return;
  notify(fmt::format("{}: {}", checkpoint.folder().string(), twins_text(*twins, first, second)));
  checkpoint.tie(table, kHead, twins->second_is_finer);
  config.tie_word_embeddings = true;
}

Result<ModelFolder> open_model_to_run(const fs::path& folder) {
  NMM_ASSIGN(auto config, ModelConfig::load(folder / "config.json"));
  NMM_ASSIGN(auto checkpoint, Checkpoint::open(folder));
  NMM_TRY(check_agreement(config, checkpoint));
  if (!checkpoint.mounted()) tie_twins(config, checkpoint);
  if (checkpoint.untied()) config.tie_word_embeddings = false;
  return ModelFolder{std::move(config), std::move(checkpoint)};
}

Result<ModelFolder> open_model(const fs::path& folder) {
  NMM_ASSIGN(ModelFolder model, open_model_to_run(folder));
  tie_twins(model.config, model.checkpoint);
  return model;
}

Result<std::string> config_text(const Checkpoint& checkpoint) {
  const fs::path path = checkpoint.folder() / "config.json";
  NMM_ASSIGN(std::string text, read_public_config(path));
  NMM_ASSIGN(text, text_of_one_family(text, path.string()));
  NMM_TRY(parse_json_object(text, path.string()));
  auto document = parse_ordered_json(text);
  const bool by_weights = document.erase(kTieByWeights) > 0;
  const bool foreign = !checkpoint.foreign_text().empty();
  const bool tables_differ = checkpoint.tied() || checkpoint.untied() || by_weights;
  if (!tables_differ && !foreign) return text;
  if (tables_differ) {
    document["tie_word_embeddings"] = !checkpoint.has(kHead);
  }
  document.erase("compression_config");
  if (foreign) document.erase("quantization_config");
  return document.dump(kConfigIndent) + "\n";
}

}  // namespace neuronmm::io
