#include "io/model_folder.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/notices.h"
#include "io/json_file.h"
#include "io/model_files.h"
#include "io/twin_tables.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHead = "lm_head.weight";

TableRows rows_of(const std::string& name, const TensorView& table) {
  return {name,
          [&table](int64_t row, float* out) {
            to_floats(table, row * table.columns(), table.columns(), out);
          },
          table.dtype};
}

// Returns whether the tensor is a table of floats that the config describes.
bool is_table(const Checkpoint& checkpoint, const std::string& name, const ModelConfig& config) {
  const auto found = checkpoint.tensors().find(name);
  return found != checkpoint.tensors().end() && is_float(found->second.dtype) &&
         found->second.shape == Shape{config.vocab_size, config.hidden_size};
}

}  // namespace

void tie_twins(ModelConfig& config, Checkpoint& checkpoint) {
  if (config.tie_word_embeddings || config.quantization) return;
  const std::string table =
      checkpoint.has("embed_tokens.weight") ? "embed_tokens.weight" : "model.embed_tokens.weight";
  if (!is_table(checkpoint, table, config) || !is_table(checkpoint, kHead, config)) return;
  const TableRows first = rows_of(table, checkpoint.tensors().at(table));
  const TableRows second = rows_of(kHead, checkpoint.tensors().at(kHead));
  const auto twins = find_twins(first, second, config.vocab_size, config.hidden_size);
  checkpoint.release_pages();
  if (!twins) return;
  notify(fmt::format("{}: {}", checkpoint.folder().string(), twins_text(*twins, first, second)));
  checkpoint.tie(table, kHead, twins->second_is_finer);
  config.tie_word_embeddings = true;
}

Result<ModelFolder> open_model(const fs::path& folder) {
  NMM_ASSIGN(auto config, ModelConfig::load(folder / "config.json"));
  NMM_ASSIGN(auto checkpoint, Checkpoint::open(folder));
  tie_twins(config, checkpoint);
  return ModelFolder{std::move(config), std::move(checkpoint)};
}

Result<std::string> config_text(const Checkpoint& checkpoint) {
  const fs::path path = checkpoint.folder() / "config.json";
  NMM_ASSIGN(std::string text, read_public_config(path));
  if (!checkpoint.tied()) return text;
  NMM_TRY(parse_json_object(text, path.string()));
  auto document = nlohmann::ordered_json::parse(text);
  document["tie_word_embeddings"] = true;
  return document.dump(kConfigIndent) + "\n";
}

}  // namespace neuronmm::io
