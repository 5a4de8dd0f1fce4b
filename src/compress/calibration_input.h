#pragma once
// What a run is told about the calibration text, opened and checked before any work: a wrong path
// or a short text costs no time.

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration_text.h"
#include "compress/saved_statistics.h"
#include "io/checkpoint.h"
#include "io/model_config.h"

namespace neuronmm::compress {

struct CalibrationInput {
  std::optional<CalibrationSequences> text;
  // What the folder of statistics holds; nothing if the run has none or is about to make it.
  std::optional<SavedStatistics> statistics;

  // Returns null if there is neither.
  const CalibrationOrigin* origin() const;
};

// Encodes `text` unless the model is to write it, and opens the folder `statistics` (empty: none).
// Errors: texts that cannot be read or are too short, statistics of another model or text, a folder
// that is not there although no text says what it should hold.
Result<CalibrationInput> open_calibration(const std::optional<CalibrationText>& text,
                                          const std::filesystem::path& statistics,
                                          const io::Checkpoint& checkpoint,
                                          const io::ModelConfig& config, Progress& progress);

}  // namespace neuronmm::compress
