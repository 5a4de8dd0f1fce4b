#pragma once
// The folder in which an unfinished run keeps its work beside its output.

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"

namespace neuronmm::compress {

// Makes `folder` (io::FolderWriter::resume_folder()) ready. `settings` is a text that differs
// whenever the results would: work of a run with the same settings stays, anything else in the
// folder is deleted. `same` may decide that another text means the same settings.
Status open_work_folder(const std::filesystem::path& folder, const std::string& settings,
                        const std::function<bool(const std::string& before)>& same = {});

}  // namespace neuronmm::compress
