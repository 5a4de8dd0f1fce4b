#pragma once
// A rounded weight in the work folder of an unfinished run: a checked safetensors file per tensor
// with "q" U8 [rows, columns], for 4 bits "groups" U8, and "scales" BF16, as ops::Codes has them.

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

std::filesystem::path codes_path(const std::filesystem::path& work, const std::string& tensor);
Status write_codes(const std::filesystem::path& work, const std::string& tensor,
                   const ops::Codes& codes);
// Errors: no file, a damaged one, one that is not of this format and size.
Result<ops::Codes> read_codes(const std::filesystem::path& work, const std::string& tensor,
                              ops::LowBitFormat format, int64_t rows, int64_t columns);

}  // namespace neuronmm::compress
