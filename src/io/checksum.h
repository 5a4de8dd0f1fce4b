#pragma once
// Checksums of texts. Unfinished runs store them to notice a changed input, and records of
// calibration texts name the texts by them.

#include <string>
#include <string_view>

namespace neuronmm::io {

// Returns the XXH3 of 64 bits as 16 hexadecimal digits.
std::string checksum(std::string_view text);

}  // namespace neuronmm::io
