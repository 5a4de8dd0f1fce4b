#include "model/calibrated_export.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/kept_work.h"
#include "compress/block_rounding/block_rounding.h"
#include "compress/linear_algebra/blas.h"
#include "compress/statistics/calibration_input.h"
#include "compress/statistics/work_folder.h"
#include "io/file_identity.h"
#include "io/model_folder.h"
#include "io/quantization.h"
#include "model/export_work.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Returns all settings on which the rounded matrices depend, as a text.
Result<std::string> export_settings(const gguf_out::GgufRequest& request,
                                    const compress::BlockTypes& types, const fs::path& folder,
                                    const compress::CalibrationInput& text) {
  Json settings = {{"command", "export"}, {"types", Json::object()}};
  for (const auto& [tensor, type] : types) settings["types"][tensor] = gguf_out::info(type).name;
  NMM_ASSIGN(settings["model"], io::folder_identity(folder));
  settings["path"] = fs::absolute(request.model).lexically_normal().string();
  settings["calibration"] = {{"text", text.origin()->text}, {"tokens", text.origin()->tokens}};
  return settings.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status check_float_weights(const io::ModelConfig& config, const fs::path& model) {
  if (!config.quantization) return {};
  return fail(
      "{}: its weights are rounded already ({}); export the original model, or leave out "
      "--calibration",
      model.string(), io::quantization_text(*config.quantization));
}

// Returns a function that finds the bytes of a matrix.
gguf_out::RoundedRows rows_of(const compress::RoundedBlocks& blocks) {
  return [&blocks](const std::string& tensor) -> std::optional<std::span<const std::byte>> {
    const auto bytes = blocks.bytes(tensor);
    if (bytes.empty()) return std::nullopt;
    return bytes;
  };
}

}  // namespace

Result<gguf_out::GgufSummary> export_by_text(
    gguf_out::GgufRequest request, ExportCalibration calibration, const ops::Backend& backend,
    Progress& progress, const io::BeforeOutput<gguf_out::GgufSummary>& before_output) {
  NMM_TRY(ExportWork::remove_used(request.out));
  NMM_TRY(compress::load_blas());
  request.calibrated = true;
  NMM_ASSIGN(const compress::BlockTypes types, gguf_out::planned_types(request));
  NMM_ASSIGN(const io::ModelFolder opened, io::open_model(request.model));
  NMM_TRY(check_float_weights(opened.config, request.model));
  if (calibration.text) NMM_TRY(compress::read_texts(*calibration.text));
  NMM_ASSIGN(const auto text,
             compress::open_calibration(calibration.text, calibration.statistics, opened.checkpoint,
                                        opened.config, progress));
  NMM_ASSIGN(ExportWork work, ExportWork::create(request.out));
  NMM_ASSIGN(const std::string settings,
             export_settings(request, types, opened.checkpoint.folder(), text));
  const auto other = request.force ? compress::OtherWork::kDelete : compress::OtherWork::kRefuse;
  NMM_TRY(compress::open_work_folder(work.path(), settings, other, progress));
  const KeptWork kept(work.name());
  const compress::CompressionInputs inputs = {.checkpoint = opened.checkpoint,
                                              .config = opened.config,
                                              .backend = backend,
                                              .text = text.text ? &*text.text : nullptr,
                                              .progress = progress};
  const compress::BlockRounding rounding = {.statistics = calibration.statistics,
                                            .saved = text.statistics ? &*text.statistics : nullptr,
                                            .force = request.force};
  NMM_ASSIGN(const auto blocks, compress::round_to_blocks(inputs, types, rounding, work.path()));
  const auto last_steps = [&](const gguf_out::GgufSummary& written) -> Status {
    if (before_output) NMM_TRY(before_output(written));
    return work.mark_used(written.file);
  };
  NMM_ASSIGN(auto summary,
             gguf_out::export_gguf(request, {.rows = rows_of(blocks)}, progress, last_steps));
  for (const io::CalibrationSource& source : text.origin()->sources)
    summary.notes.push_back(fmt::format("rounded by {} tokens of {}", source.tokens, source.name));
  NMM_TRY(work.remove());
  return summary;
}

}  // namespace neuronmm::apps
