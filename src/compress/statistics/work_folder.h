#pragma once
// The folder in which an unfinished run keeps its work beside its output.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace neuronmm::compress {

// Makes `folder` (io::FolderWriter::resume_folder()) ready. `settings` is a text that differs
// whenever the results would: work of a run with the same settings stays, anything else in the
// folder is deleted.
Status open_work_folder(const std::filesystem::path& folder, const std::string& settings);

}  // namespace neuronmm::compress
