#pragma once
// Writes the folder of a rounded model: weights, config.json, model card and Python files.
// quantize.h is the caller. compressed_folder.h does the same for compressed models.

#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "compress/output/model_writer.h"
#include "compress/reconstruction/reconstruction.h"
#include "io/folder_writer.h"
#include "io/quantization.h"

namespace neuronmm::compress {

// A model, its rounding, and what its layers have learnt. References must outlive it.
struct QuantizedModel {
  const ModelSource& source;
  const io::Quantization& quantization;
  const ReconstructionSummary* reconstruction = nullptr;  // null: no layer has learnt
};

// Writes the rounded model to the folder unreconstructed_model(source.work), whose layers can then
// learn.
Status write_unreconstructed_codes(const QuantizedModel& model, Progress& progress);

// Writes the new folder, except the files that are copied. If layers have learnt, their weights
// come from the files of source.work, and the others from unreconstructed_model(source.work).
Status write_quantized_folder(const QuantizedModel& model, const io::FolderWriter& output,
                              Progress& progress);

}  // namespace neuronmm::compress
