#pragma once
// The folder in which an unfinished run keeps its work, next to its output. `compress`, `quantize`
// and the gathering of statistics open it first.

#include <filesystem>
#include <functional>
#include <string>

#include "base/progress.h"
#include "base/result.h"

namespace neuronmm::compress {

// Says what open_work_folder() does with work that was kept under other settings.
enum class OtherWork { kRefuse, kDelete };

// Prepares the work folder `folder` (io::FolderWriter::resume_folder()). `settings` is a JSON
// object that differs whenever the results of a run would differ. If the folder has work of a run
// with the same settings, it stays as it is. `same` may decide that another text means the same
// settings. Work under other settings is an error of kind kExists, unless it may be deleted or no
// run can continue it, because an input has changed. Prints what is found in the folder.
Status open_work_folder(const std::filesystem::path& folder, const std::string& settings,
                        OtherWork other, Progress& progress,
                        const std::function<bool(const std::string& before)>& same = {});

}  // namespace neuronmm::compress
