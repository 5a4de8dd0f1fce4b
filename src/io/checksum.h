#pragma once
// A checksum of a text, for what an unfinished run leaves and the next one goes on from.

#include <string>
#include <string_view>

namespace neuronmm::io {

std::string checksum(std::string_view text);  // XXH3 of 64 bits, 16 hexadecimal digits

}  // namespace neuronmm::io
