#include "compress/statistics/saved_statistics.h"

#include <system_error>

#include <nlohmann/json.hpp>

#include "compress/statistics/mlp_metric.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/calibration_source.h"
#include "io/folder_writer.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/text_file.h"
#include "io/weights_checksum.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int64_t kStatisticsVersion = 1;
constexpr const char* kVersionKey = "neuronmm_statistics";
constexpr const char* kDescriptionName = "statistics.json";
// Folders of version 0.2.0 lack this key.
constexpr const char* kAskedKey = "calibration_tokens";

struct ModelSize {
  const char* key;
  int64_t io::ModelConfig::*value;
};
constexpr ModelSize kModelSizes[] = {{"hidden_size", &io::ModelConfig::hidden_size},
                                     {"intermediate_size", &io::ModelConfig::intermediate_size},
                                     {"num_hidden_layers", &io::ModelConfig::num_hidden_layers}};

// Sizes are compared before weights. A difference in sizes explains more to the user, and reading
// the weights takes time.
Status check_model(const nlohmann::json& object, const std::string& source,
                   const io::Checkpoint& checkpoint, const io::ModelConfig& config) {
  const io::JsonFields fields(object, source);
  const nlohmann::json* const model = fields.find("model");
  if (model == nullptr || !model->is_object()) return fields.wrong("model", "an object");
  const io::JsonFields sizes(*model, source + ": \"model\"");
  for (const ModelSize& size : kModelSizes) {
    NMM_ASSIGN(const auto found, sizes.integer(size.key));
    if (!found) return sizes.missing(size.key);
    if (*found == config.*size.value) continue;
    return fail("{}: expected statistics of a model with {} {}, found {}", source, size.key,
                config.*size.value, *found);
  }
  NMM_ASSIGN(const auto weights, sizes.string("weights_xxh3"));
  if (!weights) return sizes.missing("weights_xxh3");
  const std::string expected = io::weights_checksum(checkpoint);
  if (*weights == expected) return {};
  return fail("{}: expected statistics of {} (weights {}), found those of other weights ({})",
              source, checkpoint.folder().string(), expected, *weights);
}

Result<CalibrationOrigin> read_origin(const nlohmann::json& object, const std::string& source) {
  const io::JsonFields fields(object, source);
  CalibrationOrigin origin;
  NMM_ASSIGN(const auto tokens, fields.integer("tokens"));
  if (!tokens) return fields.missing("tokens");
  if (*tokens < 1) return fields.wrong("tokens", "a number from 1");
  origin.tokens = *tokens;
  NMM_ASSIGN(const auto text, fields.string("text"));
  if (text) origin.text = *text;
  NMM_ASSIGN(origin.sources, io::read_calibration(fields));
  if (origin.sources.empty()) return fields.wrong("calibration", "a list of one text or more");
  return origin;
}

Result<nlohmann::json> read_description(const fs::path& folder) {
  const fs::path path = folder / kDescriptionName;
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    return fail("{}: expected a folder of saved statistics, found {}", folder.string(),
                fs::exists(folder, ignored) ? "a file" : "nothing");
  }
  if (!fs::exists(path, ignored)) {
    return fail("{}: expected a folder of saved statistics, found no {} in it", folder.string(),
                kDescriptionName);
  }
  NMM_ASSIGN(auto object, io::read_json_object(path, io::kMaxConfigBytes));
  const io::JsonFields fields(object, path.string());
  NMM_ASSIGN(const auto version, fields.integer(kVersionKey));
  if (!version) return fields.missing(kVersionKey);
  if (*version == kStatisticsVersion) return object;
  return fields.wrong(kVersionKey, std::to_string(kStatisticsVersion));
}

bool same_text(const io::CalibrationSource& a, const io::CalibrationSource& b) {
  return a.xxh3 == b.xxh3 && a.bytes == b.bytes;
}

}  // namespace

std::optional<int64_t> SavedStatistics::tokens_asked(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || !fs::exists(folder / kDescriptionName, ignored)) return std::nullopt;
  const auto object = io::read_json_object(folder / kDescriptionName, io::kMaxConfigBytes);
  if (!object.ok()) return std::nullopt;
  const auto asked = io::JsonFields(*object, folder.string()).integer(kAskedKey);
  return asked.ok() && *asked && **asked > 0 ? *asked : std::nullopt;
}

fs::path SavedStatistics::metric_path(const fs::path& folder) {
  return folder / "metric.safetensors";
}

fs::path SavedStatistics::losses_folder(const fs::path& folder, std::string_view method) {
  return folder / method;
}

Status SavedStatistics::describe(const fs::path& folder, const io::Checkpoint& checkpoint,
                                 const io::ModelConfig& config, const CalibrationOrigin& origin) {
  ordered_json model;
  for (const ModelSize& size : kModelSizes) model[size.key] = config.*size.value;
  model["weights_xxh3"] = io::weights_checksum(checkpoint);
  ordered_json description = {{kVersionKey, kStatisticsVersion},
                              {"model", std::move(model)},
                              {"tokens", origin.tokens},
                              {"text", origin.text},
                              {"calibration", io::calibration_json(origin.sources)}};
  if (origin.asked > 0) description[kAskedKey] = origin.asked;
  constexpr int kIndent = 2;
  // The name of a text may contain bytes that JSON cannot hold.
  return io::write_text_file(
      folder / kDescriptionName,
      description.dump(kIndent, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

Result<SavedStatistics> SavedStatistics::open(const fs::path& folder,
                                              const io::Checkpoint& checkpoint,
                                              const io::ModelConfig& config) {
  SavedStatistics saved;
  saved.folder_ = folder;
  NMM_ASSIGN(const nlohmann::json object, read_description(folder));
  const std::string source = (folder / kDescriptionName).string();
  NMM_TRY(check_model(object, source, checkpoint, config));
  NMM_ASSIGN(saved.origin_, read_origin(object, source));
  io::remove_remains(folder);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_TRY(check_statistics(folder, layer, config));
  }
  NMM_ASSIGN(saved.has_metric_, io::is_there(saved.metric()));
  if (!saved.has_metric_) return saved;
  NMM_TRY(io::SafetensorsFile::open_checked(saved.metric()));
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    NMM_TRY(read_metric(saved.metric(), layer, config));
  }
  return saved;
}

Status SavedStatistics::check_texts(const CalibrationSequences& text) const {
  const std::vector<io::CalibrationSource>& found = text.origin.sources;
  if (found.size() != origin_.sources.size()) {
    return fail("{}: expected the {} texts that its statistics are of, found {}", folder_.string(),
                origin_.sources.size(), found.size());
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const io::CalibrationSource& own = origin_.sources[i];
    if (same_text(own, found[i])) continue;
    return fail(
        "{}: its statistics are of {} ({} bytes, xxh3 {}), the calibration text is {} ({} bytes, "
        "xxh3 {}); give it that text, or choose another folder for the statistics of this one",
        folder_.string(), own.name, own.bytes, own.xxh3, found[i].name, found[i].bytes,
        found[i].xxh3);
  }
  if (text.origin.tokens == origin_.tokens) return {};
  return fail("{}: its statistics are of {} tokens of the text, the calibration text has {}",
              folder_.string(), origin_.tokens, text.origin.tokens);
}

}  // namespace neuronmm::compress
