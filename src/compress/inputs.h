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

class DataParallel;

// All of it must outlive the step.
struct CompressionInputs {
  const io::Checkpoint& checkpoint;  // the dense model
  const io::ModelConfig& config;
  const Plan& plan;
  WeightFormats weights;             // of the model that is left
  const ops::Backend& backend;       // runs the text
  const CalibrationSequences* text;  // null where nothing is run
  Progress& progress;
  DataParallel* others = nullptr;  // processes that share the work; null: there are none
};

// Those of a pass over a text.
struct PassInputs {
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  const ops::Backend& backend;
  const CalibrationSequences& text;
  Progress& progress;
  DataParallel* others = nullptr;
};
inline PassInputs pass_inputs(const CompressionInputs& inputs) {
  return {inputs.checkpoint, inputs.config,   inputs.backend,
          *inputs.text,      inputs.progress, inputs.others};
}

}  // namespace neuronmm::compress
