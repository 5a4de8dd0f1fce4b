#pragma once
// What the steps of a compression work on: measuring sensitivities, factorizing, fitting layer by
// layer.

#include "base/progress.h"
#include "compress/calibration_text.h"
#include "compress/plan.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// All of it must outlive the step.
struct CompressionInputs {
  const io::Checkpoint& checkpoint;  // the dense model
  const io::ModelConfig& config;
  const Plan& plan;
  WeightFormats weights;             // of the model that is left
  const ops::Backend& backend;       // runs the text
  const CalibrationSequences* text;  // null where nothing is run
  Progress& progress;
};

}  // namespace neuronmm::compress
