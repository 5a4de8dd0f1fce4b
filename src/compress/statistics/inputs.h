#pragma once
// The model, the text and the helpers that the steps of a compression, a rounding or a fit work
// with. compress.cc, quantize.cc and fit/fit.cc fill in one object each and pass it to all their
// steps. The steps only read it, except that they report to `progress`.

#include "base/progress.h"
#include "compress/calibration/calibration_text.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/backend.h"

namespace neuronmm::compress {

class DataParallel;

// Everything that the references and pointers refer to must outlive the step.
struct CompressionInputs {
  // The model before the step.
  const io::Checkpoint& checkpoint;
  const io::ModelConfig& config;
  // The backend that runs the text.
  const ops::Backend& backend;
  // Null if the step runs no text. A step that runs one dereferences the pointer without a check.
  const CalibrationSequences* text;
  Progress& progress;
  // Processes that share the work; null if there are none.
  DataParallel* helpers = nullptr;
};

}  // namespace neuronmm::compress
