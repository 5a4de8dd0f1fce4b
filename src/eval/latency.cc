#include "eval/latency.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "model/generate.h"

namespace neuronmm::eval {
namespace {

using model::Transformer;
using text::TokenId;

using Prompts = std::vector<std::vector<TokenId>>;

// Returns prompts of ids that every model has, so that all models get the same prompts. The modulo
// replaces std::uniform_int_distribution, whose draws differ between standard libraries.
Prompts random_prompts(std::span<const Transformer* const> models,
                       const LatencySettings& settings) {
  int64_t vocab_size = std::numeric_limits<TokenId>::max();
  for (const Transformer* transformer : models) {
    vocab_size = std::min(vocab_size, transformer->config().vocab_size);
  }
  std::mt19937_64 random(settings.seed);
  Prompts prompts(static_cast<size_t>(settings.batch));
  for (std::vector<TokenId>& prompt : prompts) {
    prompt.resize(static_cast<size_t>(settings.prompt_tokens));
    for (TokenId& id : prompt) {
      id = static_cast<TokenId>(random() % static_cast<uint64_t>(vocab_size));
    }
  }
  return prompts;
}

// Runs one generation for the whole batch and returns its time and the times of its parts.
Result<RunLatency> time_run(const Transformer& transformer, const Prompts& prompts,
                            int64_t new_tokens, model::Speculation* draft) {
  model::GenerateOptions options;
  options.max_new_tokens = new_tokens;
  const double start = transformer.backend().clock_seconds();
  NMM_ASSIGN(auto generations, model::generate_batch(transformer, prompts, options, {}, draft));
  RunLatency run = {transformer.backend().clock_seconds() - start, 0.0, {}};
  const auto total = [](const std::vector<double>& calls) {
    return std::accumulate(calls.begin(), calls.end(), 0.0);
  };
  for (model::Generation& generation : generations) {
    if (generation.stop == model::Generation::Stop::kInterrupted) {
      return interrupted_error("no run was finished");
    }
    run.context_encoding = std::max(run.context_encoding, generation.time_to_first_token_s);
    run.draft.add(generation.draft);
    // A sequence's times include all other sequences' tokens of the same decode calls. With a
    // draft, some sequences end before others.
    if (total(generation.decode_latencies_s) >= total(run.token_generation))
      run.token_generation = std::move(generation.decode_latencies_s);
  }
  return run;
}

// Runs every model once. A disturbance of the machine is then likely to affect all models alike.
Result<std::vector<RunLatency>> time_round(std::span<const Transformer* const> models,
                                           std::span<model::Speculation* const> drafts,
                                           const Prompts& prompts, int64_t new_tokens,
                                           bool backwards) {
  std::vector<RunLatency> round(models.size());
  for (size_t i = 0; i < models.size(); ++i) {
    const size_t model = backwards ? models.size() - 1 - i : i;
    model::Speculation* const draft = model < drafts.size() ? drafts[model] : nullptr;
    NMM_ASSIGN(round[model], time_run(*models[model], prompts, new_tokens, draft));
  }
  return round;
}

}  // namespace

Status check_latency(std::span<const Transformer* const> models, const LatencySettings& settings) {
  if (settings.prompt_tokens < 1) {
    return fail("prompt_tokens: expected at least 1, found {}", settings.prompt_tokens);
  }
  if (settings.new_tokens < 2) {
    return fail(
        "new_tokens: expected at least 2 (the first comes out of the prompt's prefill), "
        "found {}",
        settings.new_tokens);
  }
  if (settings.batch < 1) return fail("batch: expected at least 1, found {}", settings.batch);
  if (settings.runs < 1) return fail("runs: expected at least 1, found {}", settings.runs);
  for (const Transformer* transformer : models) {
    const int64_t limit = transformer->config().max_position_embeddings;
    if (settings.prompt_tokens <= limit && settings.new_tokens <= limit - settings.prompt_tokens) {
      continue;
    }
    return fail("{}: prompt_tokens {} and new_tokens {} do not fit max_position_embeddings {}",
                transformer->checkpoint().folder().string(), settings.prompt_tokens,
                settings.new_tokens, limit);
  }
  return {};
}

Result<LatencyMeasurement> measure_latency(std::span<const Transformer* const> models,
                                           const LatencySettings& settings, Progress& progress,
                                           std::span<model::Speculation* const> drafts) {
  NMM_TRY(check_latency(models, settings));
  // All models get the same prompts.
  const Prompts prompts = random_prompts(models, settings);
  LatencyMeasurement measurement;
  measurement.models.resize(models.size());
  progress.start(task::kTimingModels, settings.runs + 1);
  // Run 0 warms up: it reads pages, grows buffers and raises clock rates. After an interrupt the
  // finished runs are reported.
  for (int64_t run = 0; run <= settings.runs; ++run) {
    // Every second round runs in the opposite order, so that no model always follows the same other
    // one.
    Result<std::vector<RunLatency>> round =
        time_round(models, drafts, prompts, settings.new_tokens, run % 2 == 1);
    if (!round) {
      measurement.interrupted = round.error().kind == Error::Kind::kInterrupted && run > 1;
      if (!measurement.interrupted) return round.error();
      break;
    }
    progress.update(run + 1, run == 0 ? "warm-up" : "");
    if (run == 0) continue;
    for (size_t i = 0; i < models.size(); ++i) {
      measurement.models[i].push_back(std::move((*round)[i]));
    }
  }
  progress.finish();
  return measurement;
}

}  // namespace neuronmm::eval
