#pragma once
// neuronmm bench --url: a server of OpenAI's API under load.

#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "serve/load/load_test.h"

namespace neuronmm::apps {

struct ServerBenchFlags {
  std::string url, tokenizer, prompts, api_key;
  std::string endpoint = "completions";
  load::LoadSettings load;
  load::PromptSettings prompt = {.count = 100};
  uint64_t seed = 0;
  int64_t warmup = 1;
  double timeout_s = 600.0;
  load::ServiceObjectives objectives;
};

// The flags that need --url, whose option is returned.
CLI::Option* add_server_bench_flags(CLI::App* command, ServerBenchFlags& flags);

// `flags.prompt` has the lengths. 1 if no request was answered.
Result<int> run_server_bench(ServerBenchFlags flags, const std::string& json);

}  // namespace neuronmm::apps
