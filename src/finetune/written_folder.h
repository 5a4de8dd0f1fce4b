#pragma once
// Writes what a fine-tuning has trained: a model folder with its model card, or an adapter.

#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "finetune/finetune.h"
#include "finetune/student.h"
#include "io/folder_writer.h"

namespace neuronmm::finetune {

// Returns "int8", for example, or "original" for the dtype that the folder has.
std::string weights_name(const Rounding& rounding);

// Writes everything to the staging folder of `output`.
Status write_trained(const FinetuneRequest& request, Student& student, const Rounding& rounding,
                     const io::FolderWriter& output, Progress& progress);

}  // namespace neuronmm::finetune
