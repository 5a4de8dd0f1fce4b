#pragma once
// Measures how long a model takes to answer, over whole generations, for `bench`, `compare` and the
// choice of sizes in fit. Several models are measured in turns (A B, B A, ...). The noise of a
// shared machine then affects all of them, and no model always follows the same other one. Times
// come from the backend's clock.

#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "model/speculation.h"
#include "model/transformer.h"

namespace neuronmm::eval {

// The settings of a measurement. Like the reference system's benchmark, it warms up once and then
// times 11 runs by default.
struct LatencySettings {
  int64_t prompt_tokens = 128;  // random ids, the same in every run and for every model
  int64_t new_tokens = 64;      // at least 2, because the first one comes from the prompt's prefill
  int64_t batch = 1;  // sequences that are generated together, each with a prompt of its own
  int64_t runs = 11;
  uint64_t seed = 0;
};

// The times of one greedy generation for the whole batch, in seconds.
struct RunLatency {
  double end_to_end = 0.0;
  double context_encoding = 0.0;  // all prefills, until every sequence has its first token
  // The times of the decode calls, one for every token after the first: new_tokens - 1 values. With
  // a draft, the tokens of a call share its time.
  std::vector<double> token_generation;
  model::DraftCounts draft = {};  // of all sequences
};

// The times of all runs of all models.
struct LatencyMeasurement {
  // [model][run]; every model has the same number of runs.
  std::vector<std::vector<RunLatency>> models;
  // The measurement was interrupted, and `models` has the runs that were finished.
  bool interrupted = false;
};

// Fails unless all models accept these settings, as measure_latency() does. A caller with several
// settings asks for all of them before anything is timed.
Status check_latency(std::span<const model::Transformer* const> models,
                     const LatencySettings& settings);

// Measures all models. Model i decodes with drafts[i] if it is there and not null. Errors: what
// check_latency() finds, or an interrupt before the first timed run of every model is finished.
Result<LatencyMeasurement> measure_latency(std::span<const model::Transformer* const> models,
                                           const LatencySettings& settings, Progress& progress,
                                           std::span<model::Speculation* const> drafts = {});

}  // namespace neuronmm::eval
