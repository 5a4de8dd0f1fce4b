#pragma once
// From what a caller of quantize gave to its complete settings: the one home of their defaults.

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

// What was left out has no value.
struct QuantizeGiven {
  std::filesystem::path model, out;
  std::optional<int> bits, group, lm_head_bits;
  std::vector<std::string> calibration;  // the names of the texts
  std::optional<int64_t> calibration_tokens;
  std::filesystem::path statistics;  // empty: none
  std::optional<Rounding> rounding;
  std::optional<bool> smooth;
  bool force = false;
};

std::string_view rounding_name(Rounding rounding);  // "nearest", "gptq"
Result<Rounding> parse_rounding(std::string_view name);

// Returns complete settings, whose texts have names and no contents yet, or an error that names
// what is missing or contradicts itself.
//
//   bits                8
//   group, lm_head_bits as quantized_formats() has them
//   rounding, smooth    gptq and true with a text or statistics, else nearest and false
//   calibration_tokens  those of the statistics that are there, else 32768
Result<QuantizeRequest> quantize_settings(const QuantizeGiven& given, OptionNames names);

// All settings with their values. Paths are left out, of texts all but the last part.
nlohmann::ordered_json settings_json(const QuantizeRequest& request);

}  // namespace neuronmm::compress
