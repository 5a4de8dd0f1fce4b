#pragma once
// What the steps of a compression, a rounding or a fit work on.

#include "base/progress.h"
#include "compress/calibration_text.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::compress {

class DataParallel;

// All of it must outlive the step.
struct CompressionInputs {
  const io::Checkpoint& checkpoint;  // the model before the step
  const io::ModelConfig& config;
  const ops::Backend& backend;       // runs the text
  const CalibrationSequences* text;  // null where nothing is run
  Progress& progress;
  DataParallel* others = nullptr;  // processes that share the work; null: there are none
};

}  // namespace neuronmm::compress
