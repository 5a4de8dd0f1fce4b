#pragma once
// The flags of compress, and what they mean together.

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "commands.h"
#include "compress/compress.h"
#include "model/weights_flags.h"

namespace neuronmm::apps {

struct CompressFlags {
  compress::CompressRequest request;
  // Empty, and a block of 0: what fits the other flags (compress_request()).
  std::string form, method, allocate;
  int64_t block = 0;
  WeightsFlags weights;
  bool paper = false;
  std::vector<std::string> calibration;
  int64_t calibration_tokens = 0;  // 0: the form's default
  int64_t self_generated = 0;      // 0: none
  uint64_t seed = 0;               // of the text that the model writes
  std::string json;
  bool dry_run = false, no_measure = false, dequantize = false;
  DeviceOptions device;
};

void add_compress_flags(CLI::App* command, CompressFlags& flags);

// Completes flags.request but for the calibration text. Without --form it is auto, or uv where a
// flag is given that only uv has (svd). --paper is uv,
// whitened, uniform, in blocks of 128. Errors name the flags.
Result<compress::CompressRequest> compress_request(const CompressFlags& flags);

}  // namespace neuronmm::apps
