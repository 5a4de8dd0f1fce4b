#include "serve/load/completion_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/load/answer_recorder.h"

namespace neuronmm::load {
namespace {

using Json = nlohmann::json;
using Kind = AnswerChunk::Kind;

TEST(RequestBody, AsksForAStreamAndItsUsage) {
  const LoadPrompt prompt = {.text = "say \xFF", .messages = {}, .tokens = 3, .max_tokens = 7};
  const RequestSettings settings = {
      .model = "m", .ignore_eos = true, .temperature = 0.5, .seed = 4};
  EXPECT_EQ(Json::parse(request_body(settings, prompt)),
            Json::parse(R"({"model": "m", "max_tokens": 7, "stream": true, "prompt": "say \ufffd",
              "stream_options": {"include_usage": true}, "ignore_eos": true, "temperature": 0.5,
              "seed": 4})"));
}

TEST(RequestBody, OfChats) {
  RequestSettings settings;
  settings.endpoint = Endpoint::kChat;
  settings.ignore_eos = false;
  settings.temperature.reset();
  LoadPrompt prompt = {.text = "hi", .messages = {}, .tokens = 1, .max_tokens = 2};
  const Json body = Json::parse(request_body(settings, prompt));
  EXPECT_EQ(body["messages"], Json::parse(R"([{"role": "user", "content": "hi"}])"));
  for (const char* absent : {"prompt", "ignore_eos", "temperature", "seed"})
    EXPECT_FALSE(body.contains(absent)) << absent;
  prompt.messages = Json::parse(R"([{"role": "system", "content": "x"}])");
  EXPECT_EQ(Json::parse(request_body(settings, prompt))["messages"], prompt.messages);
}

struct ChunkCase {
  const char* data;
  Kind kind;
  const char* text;
};

// As neuronmm, vLLM, llama.cpp and OpenAI write them.
TEST(AnswerChunks, TokensAreWhatTheClientWaitsFor) {
  for (const ChunkCase& expected : {
           ChunkCase{R"({"choices":[{"text":"a","finish_reason":null}]})", Kind::kToken, "a"},
           ChunkCase{R"({"choices":[{"text":"a","finish_reason":"stop"}]})", Kind::kToken, "a"},
           ChunkCase{R"({"choices":[{"text":"","finish_reason":null}]})", Kind::kToken, ""},
           ChunkCase{R"({"choices":[{"text":"","finish_reason":"length"}]})", Kind::kOther, ""},
           ChunkCase{R"({"choices":[{"delta":{"role":"assistant","content":""}}]})", Kind::kOther,
                     ""},
           ChunkCase{R"({"choices":[{"delta":{"role":"assistant","content":null}}]})", Kind::kOther,
                     ""},
           ChunkCase{R"({"choices":[{"delta":{"content":"b"}}]})", Kind::kToken, "b"},
           ChunkCase{R"({"choices":[{"delta":{"reasoning_content":"c"}}]})", Kind::kToken, "c"},
           ChunkCase{R"({"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]})",
                     Kind::kToken, "{}"},
           ChunkCase{R"({"choices":[{"delta":{},"finish_reason":"stop"}]})", Kind::kOther, ""},
           ChunkCase{R"({"choices":[],"usage":null})", Kind::kOther, ""},
           ChunkCase{"[DONE]", Kind::kDone, ""},
       }) {
    const AnswerChunk chunk = read_chunk(expected.data);
    EXPECT_EQ(chunk.kind, expected.kind) << expected.data;
    EXPECT_EQ(chunk.text, expected.text) << expected.data;
  }
}

TEST(AnswerChunks, TellTheUsage) {
  const auto chunk =
      read_chunk(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}})");
  EXPECT_EQ(chunk.prompt_tokens, 3);
  EXPECT_EQ(chunk.completion_tokens, 5);
  EXPECT_FALSE(chunk.has_choice);
  for (const char* wrong :
       {R"({"choices":[],"usage":{"completion_tokens":-1}})",
        R"({"choices":[],"usage":{"completion_tokens":"5"}})", R"({"choices":[],"usage":7})"})
    EXPECT_FALSE(read_chunk(wrong).completion_tokens) << wrong;
}

TEST(AnswerChunks, WhatIsNoChunk) {
  for (const char* garbage : {"", "x", "{", "[1]", "null", "{}", R"({"choices":)", "[DONE"})
    EXPECT_EQ(read_chunk(garbage).kind, Kind::kGarbage) << garbage;
  EXPECT_EQ(read_chunk(std::string(100000, '[')).kind, Kind::kGarbage);
  const auto error = read_chunk(R"({"error":{"message":"no\nroom","code":500}})");
  EXPECT_EQ(error.kind, Kind::kError);
  EXPECT_EQ(error.text, "no room");
}

TEST(ErrorMessages, OfAnyBody) {
  EXPECT_EQ(error_message(R"({"error":{"message":"wrong key"}})"), "wrong key");
  EXPECT_EQ(error_message(R"({"error":"wrong key"})"), "wrong key");
  EXPECT_EQ(error_message(R"({"detail":"Not Found"})"), "Not Found");
  EXPECT_EQ(error_message("<html>\r\nNo</html>"), "<html>  No</html>");
  EXPECT_EQ(error_message(""), "");
  std::string umlauts;
  for (int i = 0; i < 500; ++i) umlauts += "\xC3\xA4";
  EXPECT_EQ(error_message("x" + umlauts), "x" + umlauts.substr(0, 198) + "...");
}

TEST(Models, TheFirstIsTaken) {
  EXPECT_EQ(*first_model(R"({"object":"list","data":[{"id":"a"},{"id":"b"}]})"), "a");
  for (const char* wrong :
       {"", "x", "{}", R"({"data":[]})", R"({"data":[{}]})", R"({"data":[{"id":3}]})"})
    EXPECT_FALSE(first_model(wrong).ok()) << wrong;
}

// Times that the test itself says.
TEST(AnswerRecorder, TimesAreThoseOfTheChunks) {
  const LoadClock::time_point start;
  const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  const ResponseHead head = {200, "text/event-stream"};
  AnswerRecorder recorder(start);
  const auto event = [](const std::string& data) { return "data: " + data + "\n\n"; };
  const auto token = [&](const std::string& text) {
    return event(R"({"choices":[{"text":")" + text + R"("}]})");
  };
  EXPECT_TRUE(recorder.body(head, ": ping\n\n", at(5)));
  EXPECT_TRUE(recorder.body(head, token("a"), at(100)));
  EXPECT_TRUE(recorder.body(head, token("b") + token("c"), at(150)));
  EXPECT_TRUE(
      recorder.body(head, event(R"({"choices":[{"text":"","finish_reason":"stop"}]})"), at(160)));
  EXPECT_TRUE(
      recorder.body(head, event(R"({"choices":[],"usage":{"completion_tokens":3}})"), at(170)));
  EXPECT_FALSE(recorder.done());
  EXPECT_TRUE(recorder.body(head, "data: [DONE]\n\n", at(180)));
  EXPECT_TRUE(recorder.done());
  const auto end = recorder.finish(head, RequestFailure{"disconnected", "later"});
  const auto* const timing = std::get_if<RequestTiming>(&end);
  ASSERT_NE(timing, nullptr);
  EXPECT_DOUBLE_EQ(timing->ttft, 0.1);
  EXPECT_THAT(timing->gaps, testing::ElementsAre(testing::DoubleEq(0.05), testing::DoubleEq(0.0)));
  EXPECT_DOUBLE_EQ(timing->latency, 0.16);
  EXPECT_DOUBLE_EQ(*timing->tpot(), 0.03);
  EXPECT_EQ(timing->output_tokens, 3);
  EXPECT_EQ(recorder.text(), "abc");
}

}  // namespace
}  // namespace neuronmm::load
