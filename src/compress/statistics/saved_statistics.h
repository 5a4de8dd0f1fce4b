#pragma once
// What compression knows of a model from a text, kept in a folder for other forms, ratios and
// blocks, on none of which it depends:
//
//   statistics.json              the model, the texts and the tokens used of them
//   mlp-00000.safetensors ...    a file per layer (mlp_statistics.h)
//   attention-00000.safetensors ..., head.safetensors
//                                the same of what attention and the LM head read, for rounding;
//                                folders of old have none
//   metric.safetensors           the output metric (mlp_metric.h), where a two-sided run made it
//   whitened/, two-sided/        a file per layer of predicted losses (losses_file.h), as far as a
//                                run with this method has come
//
// The folder appears with all layers at once; what is optional may join it later, file by file.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

class SavedStatistics {
 public:
  // Reads all of it. Errors name the file: no such folder, no statistics.json in it, statistics of
  // another model (by its sizes and a checksum of its weights), a layer that is missing or damaged,
  // a metric that is.
  static Result<SavedStatistics> open(const std::filesystem::path& folder,
                                      const io::Checkpoint& checkpoint,
                                      const io::ModelConfig& config);

  const std::filesystem::path& folder() const { return folder_; }
  const CalibrationOrigin& origin() const { return origin_; }
  bool has_metric() const { return has_metric_; }
  std::filesystem::path metric() const { return metric_path(folder_); }
  // An error unless they are of these texts, by hash and size, and of as many tokens.
  Status check_texts(const CalibrationSequences& text) const;

  // The tokens that were asked for when a folder was made, as far as it says so. The folder is not
  // checked.
  static std::optional<int64_t> tokens_asked(const std::filesystem::path& folder);
  static std::filesystem::path metric_path(const std::filesystem::path& folder);
  // `method`: "whitened" or "two-sided".
  static std::filesystem::path losses_folder(const std::filesystem::path& folder,
                                             std::string_view method);
  // Writes statistics.json.
  static Status describe(const std::filesystem::path& folder, const io::Checkpoint& checkpoint,
                         const io::ModelConfig& config, const CalibrationOrigin& origin);

 private:
  std::filesystem::path folder_;
  CalibrationOrigin origin_;
  bool has_metric_ = false;
};

}  // namespace neuronmm::compress
