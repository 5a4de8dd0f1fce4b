#pragma once
// How long a model takes to answer: whole generations, timed. Several models are measured in turns
// (A B, B A, ...), so that the noise of a shared machine hits all of them and none always follows
// another. The clock is the backend's.

#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// The reference system's benchmark warms up once and times 11 runs.
struct LatencySettings {
  int64_t prompt_tokens = 128;  // random ids, the same in every run and for every model
  int64_t new_tokens = 64;      // >= 2: the first one comes out of the prompt's prefill
  int64_t batch = 1;            // sequences that are generated together, each of its own prompt
  int64_t runs = 11;
  uint64_t seed = 0;
};

// One generation of greedy tokens for the whole batch, in seconds.
struct RunLatency {
  double end_to_end = 0.0;
  double context_encoding = 0.0;         // prefills, until every sequence has its first token
  std::vector<double> token_generation;  // the decode call of each later token: new_tokens - 1
};

struct LatencyMeasurement {
  std::vector<std::vector<RunLatency>> models;  // [model][run], as many runs for each model
  bool interrupted = false;                     // then these are the runs finished before
};

// Errors: settings that do not fit a model's max_position_embeddings, an interrupt before the first
// run of every model is finished.
Result<LatencyMeasurement> measure_latency(std::span<const model::Transformer* const> models,
                                           const LatencySettings& settings, Progress& progress);

}  // namespace neuronmm::eval
