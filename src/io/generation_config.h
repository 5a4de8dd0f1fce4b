#pragma once
// Reads generation_config.json of a model folder, which says how the model's makers generate text
// with it (transformers' GenerationConfig). Fields that are not listed here are ignored. Serving
// and generating commands use it for their defaults.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// The settings of conversations with a model that recommends none. Assumed, as chat programs
// commonly have them: at temperature 1 without a limit, small models often draw nonsense.
inline constexpr double kConversationTemperature = 0.7;
inline constexpr double kConversationTopP = 0.9;

// The settings of the file. A setting that the file does not have is nullopt.
struct GenerationConfig {
  // Decoding is greedy if the value is false or nullopt.
  std::optional<bool> do_sample = {};
  std::optional<double> temperature = {};  // The range is 0 to 100.
  // The value is at least 0, which turns it off. vLLM's -1 becomes 0.
  std::optional<int64_t> top_k = {};
  std::optional<double> top_p = {};               // The range is 0 to 1.
  std::optional<double> min_p = {};               // The range is 0 to 1.
  std::optional<double> repetition_penalty = {};  // The range is 0.01 to 100.
  std::optional<int64_t> max_new_tokens = {};     // The value is at least 1.
  // The ids of eos_token_id, which is one id or a list.
  std::optional<std::vector<int32_t>> eos_token_ids = {};

  // Parses the text of the file. Fails if it is no JSON object, or if a field has a wrong type or
  // is out of its range.
  static Result<GenerationConfig> parse(std::string_view text, const std::string& source);
  // Replaces settings by those that are set in `given`, which come from a person. A given
  // temperature also decides do_sample.
  void override_with(const GenerationConfig& given);
  // Returns whether do_sample, temperature, top_k, top_p or min_p is set, so that the model's
  // makers recommend a way to draw tokens.
  bool recommends_sampling() const;
  // Returns the settings of a conversation with a person. These are the recommended ones; if none
  // are recommended, tokens are drawn with kConversationTemperature and kConversationTopP.
  GenerationConfig for_conversation() const;
  // Reads the file of a model folder. If it does not exist, nothing is set.
  static Result<GenerationConfig> load(const std::filesystem::path& folder);
};

}  // namespace neuronmm::io
