#pragma once
// The folder in which an unfinished run keeps its work, next to its output. `compress`, `quantize`
// and the gathering of statistics open it first.

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"

namespace neuronmm::compress {

// Prepares the work folder `folder` (io::FolderWriter::resume_folder()). `settings` is a text that
// differs whenever the results of a run would differ. If the folder has work of a run with the same
// settings, it stays as it is. Otherwise everything in the folder is deleted. `same` may decide
// that another text means the same settings.
Status open_work_folder(const std::filesystem::path& folder, const std::string& settings,
                        const std::function<bool(const std::string& before)>& same = {});

}  // namespace neuronmm::compress
