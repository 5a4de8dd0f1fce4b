#pragma once
// How many bits the linear weights of a folder are to have: flags that compress and finetune share.

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "compress/rounding/quantized_formats.h"

namespace neuronmm::apps {

struct WeightsFlags {
  std::string weights = "original";
  std::optional<int> group, lm_head_bits;
};

// `help` of --weights: what "original" is.
void add_weights_flags(CLI::App* command, WeightsFlags& flags, const std::string& help);
// Throws CLI::ValidationError for flags that would have no use.
compress::WeightFormats weight_formats(const WeightsFlags& flags);

}  // namespace neuronmm::apps
