#pragma once
// What `neuronmm generate` is told: by its flags, and by the model folder where they are silent.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "io/generation_config.h"
#include "model/generate.h"

namespace neuronmm::apps {

struct GenerateFlags {
  std::string model_dir, prompt, prompt_file, system;
  io::GenerationConfig settings;  // what the flags say of generation_config.json's fields
  double frequency_penalty = 0.0, presence_penalty = 0.0;
  std::vector<std::string> logit_bias;  // ID=BIAS
  std::optional<uint64_t> seed;
  std::optional<int64_t> logprobs;
  std::vector<std::string> stop;
  bool greedy = false, chat = false, ignore_eos = false, parse_special = true;
  DeviceOptions device;
};

void add_generate_flags(CLI::App* command, GenerateFlags& flags);

// The flags, over what `file` says, over the defaults of model::GenerateOptions. Without a seed the
// one there is stays; stop tokens are the caller's.
Result<model::GenerateOptions> generate_options(const GenerateFlags& flags,
                                                const io::GenerationConfig& file);

// "temperature 0.6, top_p 0.9": what `options` have from the file and not from a flag, as far as it
// changes anything.
std::string settings_of_file(const GenerateFlags& flags, const io::GenerationConfig& file,
                             const model::GenerateOptions& options);

}  // namespace neuronmm::apps
