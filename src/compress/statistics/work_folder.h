#pragma once
// The folder in which an unfinished run keeps its work, next to its output. `compress`, `quantize`
// and the gathering of statistics open it first.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace neuronmm::compress {

// Prepares the work folder `folder` (io::FolderWriter::work()). `settings` is a text that differs
// whenever the results of a run would differ. If the folder has work of a run with the same
// settings, it stays as it is. Otherwise everything in the folder is deleted.
Status open_work_folder(const std::filesystem::path& folder, const std::string& settings);

}  // namespace neuronmm::compress
