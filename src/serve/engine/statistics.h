#pragma once
// What the engine has done since it started and holds now. Latencies of single requests are told
// by the calls of their listeners.

#include <array>
#include <cstdint>

namespace neuronmm::serve {

// Upper bounds of the histogram of tokens per step (vLLM's iteration_tokens_total); one more bucket
// has what is above the last.
inline constexpr std::array<int64_t, 11> kStepTokenBounds = {1,   8,   16,   32,   64,  128,
                                                             256, 512, 1024, 2048, 4096};

struct Statistics {
  // Now.
  int64_t running = 0;        // answers whose keys and values are in memory
  int64_t waiting = 0;        // requests that are not
  int64_t queued_tokens = 0;  // of the prompts that wait
  int64_t kv_blocks = 0, kv_blocks_in_use = 0, kv_blocks_cached = 0;  // of 128 positions
  // Since the start.
  int64_t prompt_tokens = 0, cached_prompt_tokens = 0, generated_tokens = 0;
  int64_t preemptions = 0, steps = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;                        // in tokens, as vLLM counts
  std::array<int64_t, kStepTokenBounds.size() + 1> step_tokens = {};  // steps by how many tokens
  int64_t step_tokens_sum = 0;
  double step_seconds = 0.0;  // on the backend's clock: simulated on a simulated device
};

}  // namespace neuronmm::serve
