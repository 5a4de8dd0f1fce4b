#pragma once
// Tells the files of a model folder from files that somebody else has put there, such as a text or
// measurements. FolderWriter replaces a folder only if all files in it belong to a model, and
// deletes the old folder file by file, so that --force never costs anybody a file.
//
// A file belongs to a model if it has a name that this program or the Hugging Face Hub gives to
// such files, or if the folder `origin` has the same file: the input of the command, or the new
// folder. Folders, devices and pipes never belong to a model.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// Returns whether files of model folders have this name.
bool is_model_file_name(std::string_view name);

// Returns the sorted names of what is in `folder` and does not belong to a model. The names of
// folders end in "/". `origin` may be empty.
Result<std::vector<std::string>> foreign_files(const std::filesystem::path& folder,
                                               const std::filesystem::path& origin);

// Returns the refusal to replace `folder`, in which `found` does not belong to a model.
Error not_replaced(const std::filesystem::path& folder, const std::string& found);

// Fails, and names the files, if `folder` has files that do not belong to a model. The message
// calls the folder `name`.
Status require_model_files_only(const std::filesystem::path& folder,
                                const std::filesystem::path& origin,
                                const std::filesystem::path& name);

// Deletes the model's files in `folder` and then the folder. If there are other files, the folder
// stays with these, and the error names them. A folder that is not there is no error.
Status remove_model_folder(const std::filesystem::path& folder,
                           const std::filesystem::path& origin);

}  // namespace neuronmm::io
