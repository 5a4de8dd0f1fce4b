#pragma once
// Completes what a caller gave to the full settings of quantize. Every default is defined here
// once.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/option_names.h"
#include "base/result.h"
#include "compress/quantize.h"

namespace neuronmm::compress {

// The settings that a caller gives. A setting that was left out has no value.
struct QuantizeGiven {
  std::filesystem::path model, out;
  std::optional<int> bits, group, lm_head_bits, embedding_bits;
  std::vector<std::string> calibration;  // the names of the texts
  std::optional<int64_t> calibration_tokens;
  std::filesystem::path statistics;  // empty if there is none
  std::optional<Rounding> rounding;
  std::optional<bool> smooth;
  std::optional<Reconstruct> reconstruct;
  bool force = false;
};

std::string_view rounding_name(Rounding rounding);  // "nearest", "gptq"
Result<Rounding> parse_rounding(std::string_view name);

// Returns complete settings, whose texts have names but no contents yet, or an error that names
// what is missing or contradictory. The defaults are:
//
//   bits                8
//   group, lm_head_bits, embedding_bits
//                       those of quantized_formats()
//   rounding, smooth    gptq and true with a text or statistics, else nearest and false
//   calibration_tokens  those of existing statistics, else 32768; at least those that layers learn
//                       from
//   reconstruct         auto; it is off in 8 and 6 bits, and without a text or GPTQ
Result<QuantizeRequest> quantize_settings(const QuantizeGiven& given, OptionNames names);

// Fails if layers are to learn from a number of tokens and cannot. The message says what to do.
Status check_learning(const QuantizeRequest& request, OptionNames names);

// Returns all settings with their values. Paths are left out, and texts are named without their
// folder.
nlohmann::ordered_json settings_json(const QuantizeRequest& request);

}  // namespace neuronmm::compress
