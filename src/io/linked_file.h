#pragma once
// A file in a second folder, without its bytes a second time where the disk allows.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::io {

// `to` becomes another name (a hard link) of the file that `from` is or links to, or a copy where
// that cannot be: another disk, a file system without hard links. Errors: `from` is no regular
// file, `to` exists, a full disk.
Status link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace neuronmm::io
