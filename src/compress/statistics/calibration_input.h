#pragma once
// Opens the calibration text and the saved statistics of a command. The commands do this before any
// other work, so that a wrong path or a text that is too short is reported at once.

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/statistics/saved_statistics.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// The calibration text and the statistics, each if the run has it.
struct CalibrationInput {
  // The encoded text. Empty if there is none or if the model is to write it.
  std::optional<CalibrationSequences> text;
  // The contents of the folder of statistics. Empty if the run has no such folder or is about to
  // make it.
  std::optional<SavedStatistics> statistics;

  // Returns where the statistics or the text come from, or null if there is neither.
  const CalibrationOrigin* origin() const;
};

// Encodes `text` unless the model is to write it, and opens the folder `statistics` unless that
// path is empty. Fails if a text cannot be read or is too short, if the statistics belong to
// another model or text, or if the folder is missing and there is no text to make it from.
Result<CalibrationInput> open_calibration(const std::optional<CalibrationText>& text,
                                          const std::filesystem::path& statistics,
                                          const io::Checkpoint& checkpoint,
                                          const io::ModelConfig& config, Progress& progress);

}  // namespace neuronmm::compress
