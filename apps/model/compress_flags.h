#pragma once
// The flags of `neuronmm compress`. The library decides what they mean together
// (compress/settings.h). compress.cc is the only caller.

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "commands.h"
#include "compress/compress.h"
#include "compress/settings.h"
#include "model/bits_flags.h"

namespace neuronmm::apps {

// The values of the flags.
struct CompressFlags {
  compress::CompressGiven given;
  std::string form, method, allocate, reconstruct;  // each is empty if it was not given
  BitsFlags bits;
  std::string json;
  bool dry_run = false, no_measure = false, dequantize = false;
  DeviceOptions device;
};

// Adds the flags to `command`. `flags` receives their values and must outlive the command. Flags
// that exclude each other are refused as wrong usage when the command line is parsed.
void add_compress_flags(CLI::App* command, CompressFlags& flags);

// Returns the complete request. Throws CLI::ValidationError if the library refuses the flags.
compress::CompressRequest compress_settings(const CompressFlags& flags);

}  // namespace neuronmm::apps
