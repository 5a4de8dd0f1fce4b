#pragma once
// How `generate` and `chat` make their answers: by their flags, and by the model folder where these
// are silent.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "io/generation_config.h"
#include "model/generate.h"
#include "text/tokenizer.h"

namespace neuronmm::apps {

struct AnswerFlags {
  std::string model_dir;
  io::GenerationConfig settings;  // what the flags say of generation_config.json's fields
  double frequency_penalty = 0.0, presence_penalty = 0.0;
  std::vector<std::string> logit_bias;  // ID=BIAS
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool greedy = false, ignore_eos = false;
  DeviceOptions device;
};

void add_answer_flags(CLI::App* command, AnswerFlags& flags);

// The flags, over what the model's generation_config.json says, over `options`; with the stop
// tokens, in a chat also the end of a turn. Says on standard error what the file decides, and the
// seed if it is a random one (and puts it into `flags`): so a run that is killed can be repeated.
Result<model::GenerateOptions> answer_options(AnswerFlags& flags, const text::Tokenizer& tokenizer,
                                              const io::ModelConfig& config, bool chat,
                                              model::GenerateOptions options = {});

}  // namespace neuronmm::apps
