#pragma once
// Many requests to a server of OpenAI's API, timed. One thread does it all.

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "serve/load/arrivals.h"
#include "serve/load/completion_api.h"
#include "serve/load/load_report.h"
#include "serve/load/prompts.h"
#include "serve/load/server_url.h"

namespace neuronmm::load {

struct LoadSettings {
  ServerUrl url;
  std::string api_key;  // empty: none is sent
  RequestSettings request;
  ArrivalSettings arrivals;
  // No more requests at once; those that come meanwhile wait, which is not a part of their times.
  std::optional<int64_t> concurrency;
  std::chrono::duration<double> timeout = std::chrono::hours(6);  // of one request
};

// The name of the server's first model. Errors: no server, or one that refuses or has no models.
Result<std::string> ask_model_name(const LoadSettings& settings);

// Asks all prompts. Errors are counted and never end it; an interrupt (base/interrupt.h) does, and
// what was finished before is told. The tokenizer counts the tokens of answers where the server
// does not. Errors: prompts that are messages, without the endpoint of chats.
Result<LoadMeasurement> measure_load(const LoadSettings& settings,
                                     std::span<const LoadPrompt> prompts,
                                     const text::Tokenizer& tokenizer, Progress& progress);

}  // namespace neuronmm::load
