#pragma once
// A load test of a scripted server.

#include <vector>

#include <gtest/gtest.h>

#include "demo_tokenizer.h"
#include "scripted_server.h"
#include "serve/load/load_test.h"

namespace neuronmm::load {

inline std::vector<LoadPrompt> some_prompts(int64_t count) {
  std::vector<LoadPrompt> prompts;
  for (int64_t i = 0; i < count; ++i)
    prompts.push_back(
        {.text = "prompt " + std::to_string(i), .messages = {}, .tokens = 4, .max_tokens = 8});
  return prompts;
}

inline LoadSettings settings_for(const ScriptedServer& server) {
  LoadSettings settings;
  settings.url = *parse_server_url(server.url());
  settings.request.model = "m";
  settings.timeout = std::chrono::seconds(60);
  return settings;
}

inline LoadMeasurement load(const LoadSettings& settings, int64_t count) {
  Progress silent;
  auto measured = measure_load(settings, some_prompts(count), demo_tokenizer(), silent);
  EXPECT_TRUE(measured.ok());
  return std::move(*measured);
}

// A stream of `count` tokens with nothing between them.
inline std::string whole_stream(int count) {
  std::string events;
  for (int i = 0; i < count; ++i) events += token_event(" t");
  return events + finish_event() + usage_event(4, count) + kDoneEvent;
}

}  // namespace neuronmm::load
