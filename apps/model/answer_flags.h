#pragma once
// The flags of `generate` and `chat` that decide how an answer is made: sampling, penalties, stop
// texts and the device. For a flag that is not given, the model's generation_config.json decides.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "io/generation_config.h"
#include "model/generate.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::apps {

// The values of these flags.
struct AnswerFlags {
  std::string model_dir;
  io::GenerationConfig settings;  // the fields of generation_config.json that flags have set
  double frequency_penalty = 0.0, presence_penalty = 0.0;
  std::vector<std::string> logit_bias;  // texts of the form ID=BIAS
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool greedy = false, ignore_eos = false;
  // Whether a person talks with the model: io::GenerationConfig::for_conversation() then decides
  // about settings without a flag. The command `chat` sets it.
  bool conversation = false;
  DeviceOptions device;
};

void add_answer_flags(CLI::App* command, AnswerFlags& flags);

// Returns the options of an answer. A flag goes before a field of the model's
// generation_config.json, which goes before `options`. The result includes the stop tokens; in a
// chat they include the token that ends a turn. The function prints on standard error which
// settings come from the file, and which a conversation has because the file has none. If the seed
// is a random one, it also prints the seed and stores it in `flags`, so that a run that was killed
// can be repeated. Errors: a generation_config.json that cannot be read.
Result<model::GenerateOptions> answer_options(AnswerFlags& flags, const text::Tokenizer& tokenizer,
                                              const io::ModelConfig& config, bool chat,
                                              model::GenerateOptions options = {});

}  // namespace neuronmm::apps
