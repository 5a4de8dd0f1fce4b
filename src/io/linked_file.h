#pragma once
// Puts a file into a second folder without storing its bytes twice, where the disk allows. Exported
// folders use it for the weights.

#include <filesystem>

#include "base/result.h"

namespace neuronmm::io {

// Makes `to` a hard link to the file that `from` is or links to. Copies the file if that is
// impossible: on another disk, or on a file system without hard links. Fails if `from` is no
// regular file, if `to` exists, or if the disk is full.
Status link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace neuronmm::io
