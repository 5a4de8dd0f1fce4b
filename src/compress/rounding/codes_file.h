#pragma once
// Stores a rounded weight in the work folder of an unfinished run, so that an interrupted run need
// not round it again. Each tensor has a safetensors file of its own with a checksum:
//
//   q        U8 [rows, columns]
//   groups   U8 [rows, ceil(columns / group)], for 4 bits only
//   scales   BF16 [rows, ceil(columns / kQuantGroup)]
//
// The values are those of ops::Codes. A file does not say which model, text or settings its codes
// come from, so a work folder must belong to one run.
//
// TensorRounding (tensor_rounding.h) writes the files for round_model(), and reads them to find
// finished tensors. output/model_writer.h reads the files when it writes the rounded model.
// `neuronmm fit` reads them to measure what rounding costs (fit/rounding_losses.h).

#include <filesystem>
#include <string>

#include "base/result.h"
#include "ops/low_bit.h"

namespace neuronmm::compress {

// Returns the path of the file of `tensor` in `work`.
std::filesystem::path codes_path(const std::filesystem::path& work, const std::string& tensor);
// Writes the file of `tensor`. Fails if the file cannot be written.
Status write_codes(const std::filesystem::path& work, const std::string& tensor,
                   const ops::Codes& codes);
// Reads the file of `tensor`. Fails if the file is missing or damaged, or if it has another format
// or size.
Result<ops::Codes> read_codes(const std::filesystem::path& work, const std::string& tensor,
                              ops::LowBitFormat format, int64_t rows, int64_t columns);

}  // namespace neuronmm::compress
