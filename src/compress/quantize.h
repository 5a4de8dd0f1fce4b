#pragma once
// Rounds the linear weights of a model folder to 8, 6 or 4 bits (docs/design/rounding.md). The
// model may be dense or compressed, but its weights must be floats. The command `quantize`, the
// Python module and `fit` call it.
//
// Without a calibration text, weights are rounded to nearest, with two exceptions. Of the two
// factors of a low-rank matrix, the one that is applied second is rounded first, and the other is
// fitted to it. The weight next to a map of pivots is fitted to the rounded map (map_refit.h). With
// a text, codes and smoothing factors follow from what the text says (calibrated_rounding.h).
// Layers of 6 and 4 bits may then learn their codes from the text (reconstruction.h).

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/factorize_model.h"
#include "compress/reconstruction/reconstruction.h"
#include "compress/rounding/quantized_formats.h"
#include "compress/statistics/data_parallel.h"
#include "io/folder_writer.h"
#include "ops/backend.h"

namespace neuronmm::compress {

// How codes are chosen: the nearest ones, or by Gram matrices (round_model.h).
enum class Rounding { kNearest, kGptq };

// A request to round a model. The names of its fields are those of the command's options.
struct QuantizeRequest {
  std::filesystem::path model, out;
  QuantizedFormats formats = {};
  Rounding rounding = Rounding::kNearest;
  bool smooth = false;  // multiply smoothing factors per channel into the weights (smoothing.h)
  // A text, the folder of its statistics (saved_statistics.h), or both. Rounding by GPTQ and
  // smoothing need one of the two. With both, the folder is made or completed.
  std::optional<CalibrationText> calibration = {};
  std::filesystem::path statistics = {};
  // How layers learn their codes after rounding by GPTQ. A number of tokens needs 6 or 4 bits and a
  // text.
  Reconstruct reconstruct = {};
  // Replace an existing output folder, and delete unfinished work of a run with other settings.
  bool force = false;
  bool deletes_work = false;  // as in CompressRequest
};

// The result of a run, for the caller's report.
struct QuantizeSummary {
  int64_t parameters = 0;  // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;
  int64_t calibration_tokens = 0;
  std::optional<ReconstructionSummary> reconstruction = {};  // nullopt: no layer has learnt
};

// Rounds a model. `backend` runs the text. on_matrix is called for every low-rank matrix whose two
// factors are fitted to each other; rounding by GPTQ does not call it. `helpers` are processes that
// share the work. Fails if the model is quantized already, if a weight is not finite, if text or
// statistics do not fit the model, or if io::FolderWriter refuses the output. An interrupted run
// keeps what is finished in out + ".partial", and the same request continues it.
Result<QuantizeSummary> quantize(const QuantizeRequest& request, const ops::Backend& backend,
                                 Progress& progress, const OnMatrix& on_matrix = {},
                                 DataParallel* helpers = nullptr,
                                 const io::BeforeOutput<QuantizeSummary>& before_output = {});

}  // namespace neuronmm::compress
