#pragma once
// What config.json says about weights that another program has rounded. The weights of these
// programs are read (foreign_weights.h), and those of all others are refused by name:
//
//   GPTQ                 quant_method "gptq" of AutoGPTQ and GPTQModel: 4 and 8 bits, with g_idx
//   AWQ                  quant_method "awq" of AutoAWQ: 4 bits, versions "gemm" and "gemv"
//   compressed-tensors   integers of 4 and 8 bits, floats of 8 bits, and their groups
//   FP8                  quant_method "fp8" and "fbgemm_fp8": floats of 8 bits, also in blocks
//   MXFP4                quant_method "mxfp4": the experts of gpt-oss (mxfp4.h)
//
// The entry is `quantization_config` of config.json, or `compression_config` in older folders of
// compressed-tensors. Older folders of AutoGPTQ and AutoAWQ have it in a file of its own.
//
// Lists of modules that stay floats are not read, because the tensors themselves show which modules
// are rounded.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "io/json_file.h"

namespace neuronmm::io {

enum class ForeignMethod { kGptq, kAwq, kCompressedTensors, kFloat8, kMxfp4 };

struct ForeignQuantization {
  ForeignMethod method = ForeignMethod::kGptq;
  // For GPTQ and AWQ: the bits of every weight, or 0 if modules differ.
  int64_t bits = 0;
  // The number of columns that share a scale. -1: all of a row; 0: the config does not say, or
  // modules differ.
  int64_t group_size = 0;
  // For GPTQ: the file holds zero points less one (checkpoint_format "gptq").
  bool zeros_less_one = false;
  // For AWQ: the layout of version "gemv".
  bool gemv = false;
  // For compressed-tensors: every weight has zero points.
  bool all_have_zeros = false;
  // For compressed-tensors and FP8: a tensor may have one scale.
  bool per_tensor = false;
  // Rows and columns of a block of FP8, or 0.
  int64_t block_rows = 0, block_columns = 0;
  // The program that made the folder also rounds activations, or keys and values.
  bool rounds_activations = false;
  // The file that says all this, for messages.
  std::string source = {};
};

// Returns the name of the method for messages, such as "GPTQ".
std::string method_name(ForeignMethod method);

// Reads an entry. Fails if the weights cannot be read: the message names the method or the setting,
// and what to do.
Result<ForeignQuantization> parse_foreign_quantization(const JsonFields& entry);

// Returns whether the entry under "quantization_config" is one of ours, from version 0.2.0.
bool is_own_entry(const JsonFields& entry);

// Reads what config.json in the folder says, or quantize_config.json or quant_config.json if it
// says nothing. Returns nullopt if there is no entry, or if it is our own. A config.json that is
// missing or malformed is left to ModelConfig::load.
Result<std::optional<ForeignQuantization>> read_foreign_quantization(
    const std::filesystem::path& folder, bool has_quantized_tensors);

}  // namespace neuronmm::io
