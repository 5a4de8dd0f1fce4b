#pragma once
// The engine's counters: the work done since it started and the load at present. The scheduler
// (scheduler.h) counts, and Engine::statistics() returns a copy, which any thread may ask for. The
// server makes GET /metrics from the copies (http/metrics.h). Latencies of single requests are not
// counted here, because listeners (request.h) can measure them.

#include <array>
#include <cstdint>

namespace neuronmm::serve {

// The upper bounds of the buckets in the histogram of tokens per step (vLLM's
// iteration_tokens_total). One more bucket counts the steps above the last bound.
inline constexpr std::array<int64_t, 11> kStepTokenBounds = {1,   8,   16,   32,   64,  128,
                                                             256, 512, 1024, 2048, 4096};

struct Statistics {
  // The load at present.
  int64_t running = 0;        // the number of answers whose keys and values are in memory
  int64_t waiting = 0;        // the number of requests without an answer that runs
  int64_t queued_tokens = 0;  // the tokens of all prompts that were never admitted
  // Blocks of 128 positions: the largest number allowed, those that sequences use, and those that
  // only the prefix cache holds.
  int64_t kv_blocks = 0, kv_blocks_in_use = 0, kv_blocks_cached = 0;
  // The work since the start.
  int64_t prompt_tokens = 0, cached_prompt_tokens = 0, generated_tokens = 0;
  int64_t preemptions = 0, steps = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // in tokens, as vLLM counts them
  // The number of steps in each bucket of kStepTokenBounds.
  std::array<int64_t, kStepTokenBounds.size() + 1> step_tokens = {};
  int64_t step_tokens_sum = 0;
  // What the draft proposed, in tokens, and in how many steps of answers. `has_draft` is false if
  // the engine was started without one.
  bool has_draft = false;
  int64_t drafts = 0, proposed_tokens = 0, accepted_tokens = 0;
  // The duration of all steps on the backend's clock, which a simulated device simulates.
  double step_seconds = 0.0;
};

}  // namespace neuronmm::serve
