#pragma once
// Rounds a model by a calibration text and writes it to a GGUF file, for `export --target gguf
// --calibration`.

#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "gguf_out/export_gguf.h"
#include "ops/backend.h"

namespace neuronmm::apps {

// The text, the folder of its statistics (saved_statistics.h), or both. With both, the folder is
// made or completed.
struct ExportCalibration {
  std::optional<compress::CalibrationText> text = {};
  std::filesystem::path statistics = {};
};

// Writes the file request.out. What is finished is kept in OUT.partial, so that the same command
// continues after an interrupt; the folder is removed in the end. With request.force, work of
// another command is deleted. Fails as export_gguf() does, if the weights are rounded already, or
// if text or statistics do not fit the model.
Result<gguf_out::GgufSummary> export_by_text(
    gguf_out::GgufRequest request, ExportCalibration calibration, const ops::Backend& backend,
    Progress& progress, const io::BeforeOutput<gguf_out::GgufSummary>& before_output);

}  // namespace neuronmm::apps
