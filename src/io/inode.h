#pragma once
// What identifies a file or folder whatever its name is, as long as it exists.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace neuronmm::io {

struct Inode {
  uint64_t device = 0, number = 0;
  bool operator==(const Inode&) const = default;
};

// Follows links. Returns nullopt if nothing is there or the system does not tell.
std::optional<Inode> inode_of(const std::filesystem::path& path);

}  // namespace neuronmm::io
