#pragma once
// The flags --bits, --group, --lm-head-bits and --embedding-bits, which say how many bits the
// linear weights of a new folder have. The commands compress, quantize, import, finetune and
// synthesize share them.

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "compress/rounding/quantized_formats.h"

namespace neuronmm::apps {

struct BitsFlags {
  std::optional<int> bits, group, lm_head_bits, embedding_bits;
};

// Adds the flags and returns the option --bits. `help` says what --bits does, and what the command
// does without it.
CLI::Option* add_bits_flags(CLI::App* command, BitsFlags& flags, const std::string& help);

// Returns the formats that the flags ask for. Throws CLI::ValidationError if one of the flags has
// no use.
compress::WeightFormats weight_formats(const BitsFlags& flags);

}  // namespace neuronmm::apps
