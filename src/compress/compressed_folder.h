#pragma once
// The files of a compressed model's folder: its weights, config.json with the record of how it was
// made, what transformers needs to open it, and its model card.

#include <optional>

#include "base/progress.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "compress/output/model_card.h"
#include "compress/request.h"
#include "compress/sizes/form_choice.h"
#include "compress/sizes/plan.h"
#include "compress/sizes/shaped_model.h"
#include "io/checkpoint.h"
#include "io/folder_writer.h"

namespace neuronmm::compress {

// What became of a model, and how. All that it refers to must outlive it.
struct CompressedModel {
  const CompressRequest& request;
  const io::Checkpoint& checkpoint;  // before
  const io::ModelConfig& config;     // before
  const Plan& plan;
  std::optional<FormChoice> form;
  std::optional<SizeChoice> sizes;
  const CalibrationOrigin* calibration = nullptr;  // null: no text decided anything
};

// Writes all but the model card, from the factors or MLPs that lie in output.resume_folder().
Status write_compressed_model(const CompressedModel& model, const io::FolderWriter& output,
                              Progress& progress);
Status write_compressed_card(const CompressedModel& model, const std::optional<MeasuredLoss>& loss,
                             const io::FolderWriter& output);

}  // namespace neuronmm::compress
