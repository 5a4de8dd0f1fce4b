#pragma once
// A checksum by which a model is recognized whatever its folder is called. Saved statistics belong
// to the model with their checksum, and reports say which model they are about.

#include <string>

#include "io/checkpoint.h"

namespace neuronmm::io {

// Returns the XXH3 of 64 bits, as 16 hexadecimal digits, of the names, dtypes, shapes and values of
// all tensors. It does not depend on which files hold them. All weights are read, at the speed of
// the disk.
std::string weights_checksum(const Checkpoint& checkpoint);

}  // namespace neuronmm::io
