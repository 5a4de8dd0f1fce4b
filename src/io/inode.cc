#include "io/inode.h"

#include <sys/stat.h>

namespace neuronmm::io {

std::optional<Inode> inode_of(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return Inode{status.st_dev, status.st_ino};
}

}  // namespace neuronmm::io
