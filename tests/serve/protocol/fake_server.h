#pragma once
// Fakes for the tests of the protocol: a served model whose tokens are bytes, an engine that gives
// scripted answers, and a client that keeps everything that it receives.

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/protocol/prepared_generation.h"
#include "serve/protocol/tokenizer_endpoints.h"
#include "text/small_tokenizer.h"

namespace neuronmm::serve {

// The ids of "<|begin|>", "<|end|>" and "[TOOL_CALLS]". All other tokens are bytes.
inline constexpr TokenId kBeginId = 256, kEndId = 257, kToolCallsId = 258;

// Returns a small chat template with tools in Hermes' syntax.
inline std::string hermes_template() {
  return "{{ bos_token }}{% if tools %}<tools>{{ tools | tojson }}</tools><tool_call>{% endif %}"
         "{% for m in messages %}|{{ m.role }}|{{ m.content }}{% endfor %}"
         "{% if add_generation_prompt %}|assistant|{% endif %}";
}

// A model folder with a tokenizer and a chat template, and its ServedModel.
class ServedFolder {
 public:
  explicit ServedFolder(const std::string& chat_template = hermes_template()) {
    nlohmann::json root = text::small_tokenizer();
    root["added_tokens"] = {text::added_token("<|begin|>", kBeginId),
                            text::added_token("<|end|>", kEndId),
                            text::added_token("[TOOL_CALLS]", kToolCallsId)};
    // The suite is part of the name, because tests of several suites have the same name and run at
    // the same time.
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    const auto folder = std::filesystem::path(testing::TempDir()) /
                        fmt::format("{}.{}", test.test_suite_name(), test.name());
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "tokenizer.json") << root;
    std::ofstream(folder / "tokenizer_config.json") << nlohmann::json(
        {{"bos_token", "<|begin|>"}, {"eos_token", "<|end|>"}, {"chat_template", chat_template}});
    load(folder);
  }
  // Uses an existing folder.
  static ServedFolder published(const std::filesystem::path& folder) {
    return ServedFolder(folder, 0);
  }

  ServedModel model;
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  ServedFolder(const std::filesystem::path& folder, int) { load(folder); }
  void load(const std::filesystem::path& folder) {
    auto loaded = text::Tokenizer::load(folder);
    if (!loaded.ok()) throw std::runtime_error(loaded.error().message);
    tokenizer_ = std::make_unique<text::Tokenizer>(std::move(loaded).value());
    model.names = {"small", "alias"};
    model.tokenizer = tokenizer_.get();
    model.vocab_size = tokenizer_->vocab_size();
    model.context_tokens = 4096;
    model.stop_tokens = {kEndId};
    model.created = 1700000000;
    model.system_fingerprint = "fp";
    describe_templates(model);
  }
  std::unique_ptr<text::Tokenizer> tokenizer_;
};

class FakeSink : public ResponseSink {
 public:
  void event(std::string_view text) override {
    EXPECT_FALSE(ended);
    events.emplace_back(text);
  }
  void response(int status_in, std::string body_in) override {
    EXPECT_FALSE(ended);
    status = status_in;
    body = std::move(body_in);
  }
  void end() override {
    EXPECT_FALSE(ended);
    ended = true;
  }
  // Returns the data of all events, which must have types.
  std::vector<Json> typed_events() const {
    std::vector<Json> list;
    for (const std::string& event : events) {
      const size_t line = event.find('\n');
      list.push_back(Json::parse(event.substr(line + 7)));
      EXPECT_EQ(event, typed_event(list.back()["type"].get<std::string>(), list.back(),
                                   static_cast<int64_t>(list.size()) - 1));
    }
    return list;
  }
  // Returns the data of all events except the last one, [DONE].
  std::vector<Json> chunks() const {
    std::vector<Json> list;
    for (const std::string& event : events) {
      EXPECT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n")) << event;
      if (event != kDoneEvent) list.push_back(Json::parse(event.substr(6)));
    }
    return list;
  }

  std::vector<std::string> events;
  int status = 0;
  std::string body;
  bool ended = false;
};

// The scripted answer of one choice.
struct ScriptedAnswer {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token = {};
  std::string message = {};
};

inline std::vector<TokenId> bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// Returns the log probability -0.5 for the chosen token and -0.25 for the token with the next id.
inline model::TokenLogprobs logprobs_of(TokenId id, int64_t count) {
  model::TokenLogprobs logprobs{{id, -0.5}, {}};
  if (count > 0) logprobs.top.push_back({id, -0.5});
  if (count > 1) logprobs.top.push_back({id + 1, -0.25});
  return logprobs;
}

// Calls the listener as the engine would for these answers.
inline void play(const Request& request, Listener& listener,
                 const std::vector<ScriptedAnswer>& answers, int64_t cached = 0) {
  listener.on_start({std::ssize(request.prompt), cached});
  if (request.prompt_logprobs) {
    std::vector<model::TokenLogprobs> logprobs;
    for (size_t i = 1; i < request.prompt.size(); ++i)
      logprobs.push_back(logprobs_of(request.prompt[i], *request.prompt_logprobs));
    listener.on_prompt_logprobs(logprobs);
  }
  for (size_t choice = 0; choice < answers.size(); ++choice) {
    ScriptedAnswer answer = answers[choice];
    for (const TokenId id : answer.tokens) {
      GeneratedToken token{id, {}};
      if (request.logprobs) token.logprobs = logprobs_of(id, *request.logprobs);
      if (listener.on_token(static_cast<int64_t>(choice), token)) continue;
      answer.reason = FinishReason::kStop;
      answer.stop_token.reset();
      break;
    }
    listener.on_finish(static_cast<int64_t>(choice), answer.reason, answer.stop_token,
                       answer.message);
  }
}

// A request's way through the protocol: the requests to the engine and the response.
struct Exchange {
  std::shared_ptr<FakeSink> sink = std::make_shared<FakeSink>();
  std::vector<Request> requests;
  StructuredOutput structured_output;
  std::vector<std::string> unknown_fields;
  std::optional<ApiError> error;

  Json body() const { return Json::parse(sink->body); }
};

// Prepares a request, gives every prompt the same scripted answers, and returns all results.
inline Exchange exchange_by(decltype(&prepare_chat_completion) prepare, const ServedModel& model,
                            const Json& body, const std::vector<ScriptedAnswer>& answers,
                            int64_t cached = 0) {
  Exchange result;
  uint64_t next = 7;
  const GenerationContext context{result.sink, 1700000001, [&] { return next++; }};
  auto prepared = prepare(model, body.dump(), context);
  if (!prepared.ok()) {
    result.error = prepared.error();
    return result;
  }
  result.structured_output = prepared->structured_output;
  result.unknown_fields = prepared->unknown_fields;
  result.requests = prepared->requests;
  for (size_t i = 0; i < result.requests.size(); ++i)
    play(result.requests[i], *prepared->listeners[i], answers, cached);
  return result;
}

// Does the same for the API that the fields of the body suggest.
inline Exchange exchange(const ServedModel& model, const Json& body,
                         const std::vector<ScriptedAnswer>& answers, int64_t cached = 0) {
  const auto prepare = body.contains("messages") ? prepare_chat_completion
                       : body.contains("input")  ? prepare_responses_api
                                                 : prepare_text_completion;
  return exchange_by(prepare, model, body, answers, cached);
}

inline ScriptedAnswer says(std::string_view text) { return {.tokens = bytes(text)}; }

inline Json chat_body() { return {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}; }
inline Json completion_body() { return {{"prompt", "Once"}}; }
// Returns a tool without arguments.
inline Json tool(const std::string& name) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"description", "d"},
            {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}};
}

}  // namespace neuronmm::serve
