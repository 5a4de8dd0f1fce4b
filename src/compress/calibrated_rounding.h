#pragma once
// What a text does for the rounding of a model: factors per channel that make what is rounded
// together alike in size (smoothing.h), and codes that change least what the layers make of the
// text (round_model.h).

#include <filesystem>
#include <optional>

#include "compress/calibration_text.h"
#include "compress/inputs.h"
#include "compress/saved_statistics.h"
#include "compress/smoothing.h"
#include "io/quantization.h"

namespace neuronmm::compress {

struct CalibratedRounding {
  bool smooth = true;  // fold factors into the weights
  bool gptq = true;    // else they are rounded to nearest
  // As StatisticsRequest has them.
  std::filesystem::path statistics = {};
  const SavedStatistics* saved = nullptr;
};

// As model_writer.h takes them.
struct RoundedByText {
  TensorScales scales;
  std::filesystem::path codes;  // empty: to nearest
};

// Interrupted, it goes on from what is in `work`.
Result<RoundedByText> round_by_text(const CompressionInputs& inputs,
                                    const CalibratedRounding& rounding,
                                    const io::Quantization& quantization,
                                    const std::filesystem::path& work);

}  // namespace neuronmm::compress
