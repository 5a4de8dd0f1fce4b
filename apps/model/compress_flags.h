#pragma once
// The flags of compress. What they mean together, the library says (compress/settings.h).

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "commands.h"
#include "compress/compress.h"
#include "compress/settings.h"
#include "model/bits_flags.h"

namespace neuronmm::apps {

struct CompressFlags {
  compress::CompressGiven given;
  std::string form, method, allocate;  // empty: not given
  BitsFlags bits;
  std::string json;
  bool dry_run = false, no_measure = false, dequantize = false;
  DeviceOptions device;
};

// Flags that cannot be meant together are wrong usage when the command line is parsed.
void add_compress_flags(CLI::App* command, CompressFlags& flags);

// Throws CLI::ValidationError where the library refuses what was given.
compress::CompressSettings compress_settings(const CompressFlags& flags);

}  // namespace neuronmm::apps
