#pragma once
// The flags of the command compress. The library decides what they mean together
// (compress/settings.h).

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
  std::string form, method, allocate;  // empty if the flag is not given
  BitsFlags bits;
  std::string json;
  bool dry_run = false, no_measure = false, dequantize = false;
  DeviceOptions device;
};

// Adds the flags. Flags that contradict each other are wrong usage as soon as the command line is
// parsed.
void add_compress_flags(CLI::App* command, CompressFlags& flags);

// Returns the complete settings. Throws CLI::ValidationError with the library's message if it
// refuses the flags.
compress::CompressSettings compress_settings(const CompressFlags& flags);

}  // namespace neuronmm::apps
