#pragma once
// Writes the files of a compressed model's folder: its weights, config.json with a record of the
// compression, the files that transformers needs, and the model card. compress.cc calls it at the
// end of a compression. The folder is incomplete until write_compressed_model() and
// write_compressed_card() have run.

#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/output/model_card.h"
#include "compress/reconstruction/reconstruction.h"
#include "compress/request.h"
#include "compress/sizes/form_choice.h"
#include "compress/sizes/plan.h"
#include "compress/sizes/shaped_model.h"
#include "io/checkpoint.h"
#include "io/folder_writer.h"
#include "io/quantization.h"

namespace neuronmm::compress {

// A compressed model and how it was made. References must outlive it.
struct CompressedModel {
  const CompressRequest& request;
  const io::Checkpoint& checkpoint;  // the original model
  const io::ModelConfig& config;     // the original config
  const Plan& plan;
  std::optional<FormChoice> form;
  std::optional<SizeChoice> sizes;
  const CalibrationOrigin* calibration = nullptr;         // null: no text has influenced the result
  const ReconstructionSummary* reconstruction = nullptr;  // null: no layer has learnt
};

// Returns the record of the compression for config.json as far as the request tells it. The form
// and all sizes are missing.
io::CompressionRecord record_of_request(const CompressedModel& model);

// Returns the folder of the model before its layers learn.
std::filesystem::path unreconstructed_model(const std::filesystem::path& work);
// Writes this folder: all weights as floats, and config.json. The factors or MLPs come from `work`.
Status write_unreconstructed_model(const CompressedModel& model, const std::filesystem::path& work,
                                   Progress& progress);

// Writes the reconstructed layers of `work` with all other weights. Rounded weights, and the
// matrices of the published class if `published`, are made in a second step from a folder of floats
// in `work`, whose config.json is `config`.
Status write_learnt_weights(const std::string& config,
                            const std::optional<io::Quantization>& quantization, bool published,
                            const std::filesystem::path& work, const std::filesystem::path& folder,
                            Progress& progress);

// Writes everything except the model card. The factors or MLPs come from output.resume_folder().
Status write_compressed_model(const CompressedModel& model, const io::FolderWriter& output,
                              Progress& progress);
// Writes the model card, which includes the measured loss if there is one.
Status write_compressed_card(const CompressedModel& model, const std::optional<MeasuredLoss>& loss,
                             const io::FolderWriter& output);

}  // namespace neuronmm::compress
