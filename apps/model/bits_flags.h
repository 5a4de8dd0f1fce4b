#pragma once
// --bits, --group and --lm-head-bits: how many bits the linear weights of a folder are to have.
// compress, quantize, import and finetune share them.

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "compress/rounding/quantized_formats.h"

namespace neuronmm::apps {

struct BitsFlags {
  std::optional<int> bits, group, lm_head_bits;
};

// `help` says what --bits does, and what happens without it. Returns the option --bits.
CLI::Option* add_bits_flags(CLI::App* command, BitsFlags& flags, const std::string& help);

// Returns what the flags mean together. Throws CLI::ValidationError for flags that have no use.
compress::WeightFormats weight_formats(const BitsFlags& flags);

}  // namespace neuronmm::apps
