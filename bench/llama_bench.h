#pragma once
// llama.cpp's own benchmark as a peer: one run of its program, which loads the model, warms up, and
// times a prefill and a decode as bench_model does.

#include <string>

#include "base/result.h"

namespace neuronmm::bench {

struct TokensPerSecond {
  double prefill = 0.0, decode = 0.0;
};

struct LlamaBench {
  std::string program;  // the path of llama-bench
  int threads = 1;
  int64_t prompt_tokens = 512, new_tokens = 32;

  // Errors: a program that does not start or fails, output that is not its JSON.
  Result<TokensPerSecond> run(const std::string& gguf) const;
};

// Of what `llama-bench -o json` printed: an array of tests, each with n_prompt, n_gen and avg_ts
// (tokens/s).
Result<TokensPerSecond> parse_llama_bench(std::string_view output, const std::string& source);

}  // namespace neuronmm::bench
