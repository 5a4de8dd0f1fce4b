#pragma once
// generation_config.json of a Hugging Face model folder: how its makers generate with it
// (transformers' GenerationConfig). Fields that are not here are left alone.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::io {

// What the file does not say is nullopt.
struct GenerationConfig {
  std::optional<bool> do_sample = {};             // false, also where it is absent: greedy
  std::optional<double> temperature = {};         // from 0 to 100
  std::optional<int64_t> top_k = {};              // from 0, which is off; vLLM's -1 becomes 0
  std::optional<double> top_p = {};               // from 0 to 1
  std::optional<double> min_p = {};               // from 0 to 1
  std::optional<double> repetition_penalty = {};  // from 0.01 to 100
  std::optional<int64_t> max_new_tokens = {};     // from 1
  std::optional<std::vector<int32_t>> eos_token_ids = {};  // eos_token_id: one id or a list

  // Errors: no JSON object, a field of another type or outside of its range.
  static Result<GenerationConfig> parse(std::string_view text, const std::string& source);
  // What a person says goes before what the file says; a temperature also says whether to draw.
  void override_with(const GenerationConfig& given);
  // Nothing is set where the folder has no such file.
  static Result<GenerationConfig> load(const std::filesystem::path& folder);
};

}  // namespace neuronmm::io
