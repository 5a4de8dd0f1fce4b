#pragma once
// Rounds a model to 8, 6 or 4 bits by what a calibration text says of it. A text helps in two ways:
//
// * Smoothing (smoothing.h) multiplies channels by factors that make the values that share a scale
//   similar in size.
// * GPTQ (round_model.h) chooses codes so that the layers' outputs on the text change least.
//
// quantize.cc is the caller. It hands the result to model_writer.h.

#include <filesystem>

#include "compress/calibration/calibration_text.h"
#include "compress/rounding/row_rounding.h"
#include "compress/rounding/smoothing.h"
#include "compress/statistics/inputs.h"
#include "compress/statistics/saved_statistics.h"
#include "io/quantization.h"

namespace neuronmm::compress {

// Settings of a rounding by a text.
struct CalibratedRounding {
  bool smooth = true;  // multiply the weights by factors per channel
  bool gptq = true;    // false: codes are the nearest ones
  // The folder of statistics and its opened contents, as in StatisticsRequest
  // (gathered_statistics.h).
  std::filesystem::path statistics = {};
  const SavedStatistics* saved = nullptr;
  RoundingSettings settings = {};
  bool force = false;  // delete unfinished statistics of another text or model
};

// The result of rounding by a text, in the form that ModelSource (model_writer.h) takes.
struct RoundedByText {
  TensorScales scales;
  std::filesystem::path codes;  // the folder of the codes; empty: round to nearest
};

// Gathers the statistics that `inputs` and `rounding` lack, and rounds by them. `work` keeps what
// is finished, so that the next call after an interrupt continues there. Fails if the statistics
// are those of another model or text, if a tensor holds NaN or infinity, or if a file cannot be
// written.
Result<RoundedByText> round_by_text(const CompressionInputs& inputs,
                                    const CalibratedRounding& rounding,
                                    const io::Quantization& quantization,
                                    const std::filesystem::path& work);

}  // namespace neuronmm::compress
