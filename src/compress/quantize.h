#pragma once
// A model folder with weights of 8, 6 or 4 bits (docs/low_bit.md) from one with float weights,
// dense or compressed. Of a low-rank matrix the factor that is applied second is rounded first and
// the other fitted to it; everything else is rounded to nearest. With a calibration text all are
// rounded as that says (calibrated_rounding.h).

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration_text.h"
#include "compress/data_parallel.h"
#include "compress/factorize_model.h"
#include "compress/quantized_formats.h"
#include "ops/backend.h"

namespace neuronmm::compress {

enum class Rounding { kNearest, kGptq };

struct QuantizeRequest {
  std::filesystem::path model, out;
  QuantizedFormats formats = {};
  Rounding rounding = Rounding::kNearest;
  bool smooth = false;  // fold factors per channel into the weights
  // What both need beyond nearest rounding: a text, the folder of its statistics
  // (saved_statistics.h), or both: the folder is then made, or gets what it lacks.
  std::optional<CalibrationText> calibration = {};
  std::filesystem::path statistics = {};
  bool force = false;  // replace an existing output folder
};

struct QuantizeSummary {
  int64_t parameters = 0;  // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;
  int64_t calibration_tokens = 0;
};

// `backend` runs the text. on_matrix is called for every low-rank matrix as it is finished.
// Refused: a model that is quantized already, an output that io::FolderWriter refuses. An
// interrupted run keeps what it finished beside the output (out +
// ".partial") and the same request goes on from there.
Result<QuantizeSummary> quantize(const QuantizeRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix = {},
                                 DataParallel* others = nullptr);

}  // namespace neuronmm::compress
