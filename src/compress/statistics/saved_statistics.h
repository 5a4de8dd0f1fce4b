#pragma once
// The folder of `--statistics`: what a text says about a model, kept for other runs. The statistics
// do not depend on the form, the ratio or the block size of a run. The files are:
//
//   statistics.json              the model, the texts and the number of tokens used of them
//   mlp-00000.safetensors ...    a file per layer (mlp_statistics.h)
//   attention-00000.safetensors ..., head.safetensors
//                                statistics of attention and of the LM head, for rounding; folders
//                                of older versions lack them
//   metric.safetensors           the output metric (mlp_metric.h), if a two-sided run has made it
//   whitened/, two-sided/        a file per layer of predicted losses (losses_file.h), for the
//                                layers that a run with this method has finished
//
// The folder appears when the statistics of all layers are complete. Optional files may join it
// later, one by one.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// An opened folder of statistics.
class SavedStatistics {
 public:
  // Opens a folder and checks all of its required files and the metric. Errors name the file. They
  // are: no such folder, no statistics.json in it, statistics of another model (compared by sizes
  // and a checksum of the weights), a missing or damaged file of a layer, and a damaged metric.
  static Result<SavedStatistics> open(const std::filesystem::path& folder,
                                      const io::Checkpoint& checkpoint,
                                      const io::ModelConfig& config);

  const std::filesystem::path& folder() const { return folder_; }
  const CalibrationOrigin& origin() const { return origin_; }
  bool has_metric() const { return has_metric_; }
  std::filesystem::path metric() const { return metric_path(folder_); }
  // Fails unless the statistics come from these texts, compared by hash and size, and from the same
  // number of tokens.
  Status check_texts(const CalibrationSequences& text) const;

  // Returns the number of tokens that was asked for when the folder was made, or nothing if the
  // folder does not say. Nothing else in the folder is checked.
  static std::optional<int64_t> tokens_asked(const std::filesystem::path& folder);
  static std::filesystem::path metric_path(const std::filesystem::path& folder);
  // Returns the folder for predicted losses. `method` is "whitened" or "two-sided".
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
