#pragma once
// Runs llama.cpp's own benchmark as a peer of bench_model. One run of its program loads the model,
// warms up, and times a prefill and a decode as bench_model does.

#include <string>

#include "base/result.h"

namespace neuronmm::bench {

// The speeds of one model.
struct TokensPerSecond {
  double prefill = 0.0, decode = 0.0;
};

// The settings of llama-bench.
struct LlamaBench {
  std::string program;  // the path of llama-bench
  int threads = 1;
  int64_t prompt_tokens = 512, new_tokens = 32;

  // Runs llama-bench on a GGUF file. Errors: a program that does not start or fails, and output
  // that is not its JSON.
  Result<TokensPerSecond> run(const std::string& gguf) const;
};

// Reads the output of `llama-bench -o json`, an array of tests with n_prompt, n_gen and avg_ts
// (tokens/s). `source` begins the message of an error.
Result<TokensPerSecond> parse_llama_bench(std::string_view output, const std::string& source);

}  // namespace neuronmm::bench
