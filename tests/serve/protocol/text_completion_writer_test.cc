// Tests answers to text completions in the formats that OpenAI documents.

#include "serve/responses/text_completion_writer.h"

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

std::string body_without_id(Json body) {
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  body.erase("id");
  return body.dump();
}

TEST(Completion, WritesOneObjectWithoutAStream) {
  const ServedFolder folder;
  const Exchange whole = exchange(folder.model, {{"prompt", "Once"}}, {says(" upon")}, 2);
  EXPECT_EQ(whole.sink->status, 200);
  EXPECT_EQ(
      body_without_id(whole.body()),
      R"({"object":"text_completion","created":1700000001,"model":"small",)"
      R"("system_fingerprint":"fp","choices":[{"index":0,"text":" upon","logprobs":null,)"
      R"("finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":4,)"
      R"("completion_tokens":5,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":2}}})");
}

TEST(Completion, WritesChunksInAStream) {
  const ServedFolder folder;
  const Json body = {
      {"prompt", "Once"}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  const Exchange streamed = exchange(folder.model, body, {{bytes("ab"), FinishReason::kLength}});
  const auto chunks = streamed.sink->chunks();
  ASSERT_EQ(chunks.size(), 4u);
  const std::string head =
      R"({"object":"text_completion","created":1700000001,"model":"small","system_fingerprint":)"
      R"("fp","choices":[)";
  EXPECT_EQ(body_without_id(chunks[0]),
            head + R"({"index":0,"text":"a","logprobs":null,"finish_reason":null}],"usage":null})");
  EXPECT_EQ(body_without_id(chunks[2]), head + R"({"index":0,"text":"","logprobs":null,)"
                                               R"("finish_reason":"length","stop_reason":null}],)"
                                               R"("usage":null})");
  EXPECT_EQ(body_without_id(chunks[3]),
            head + R"(],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6,)"
                   R"("prompt_tokens_details":{"cached_tokens":0}}})");
  EXPECT_EQ(streamed.sink->events.back(), kDoneEvent);
}

// The numbers of the choices continue over all prompts.
TEST(Completion, NumbersTheChoicesOfAllPrompts) {
  const ServedFolder folder;
  const Json body = {{"prompt", {"a", "bc"}}, {"n", 2}};
  const Json answer = exchange(folder.model, body, {says("X"), says("Y")}, 1).body();
  std::string texts;
  for (const Json& choice : answer["choices"])
    texts += fmt::format("{}{} ", choice["index"].get<int>(), choice["text"].get<std::string>());
  EXPECT_EQ(texts, "0X 1Y 2X 3Y ");
  EXPECT_EQ(answer["usage"].dump(), R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,)"
                                    R"("prompt_tokens_details":{"cached_tokens":2}})");
}

TEST(Completion, HasLogprobs) {
  const ServedFolder folder;
  Json body = {{"prompt", "p"}, {"logprobs", 2}};
  const std::string text = "a\xC3\xA9z";  // four tokens; two are parts of one character
  const Json logprobs = exchange(folder.model, body, {says(text)}).body()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json({"a", "\xEF\xBF\xBD", "\xEF\xBF\xBD", "z"}));
  EXPECT_EQ(logprobs["text_offset"], Json({0, 1, 2, 3}));
  EXPECT_EQ(logprobs["token_logprobs"], Json({-0.5, -0.5, -0.5, -0.5}));
  EXPECT_EQ(logprobs["top_logprobs"][0].dump(), R"({"a":-0.5,"b":-0.25})");
  body["stream"] = true;
  Json streamed = {{"text_offset", Json::array()},
                   {"token_logprobs", Json::array()},
                   {"tokens", Json::array()},
                   {"top_logprobs", Json::array()}};
  for (const Json& chunk : exchange(folder.model, body, {says(text)}).sink->chunks()) {
    const Json& part = chunk["choices"][0]["logprobs"];
    if (part.is_null()) continue;
    for (const auto& [key, list] : part.items()) {
      for (const Json& value : list) streamed[key].push_back(value);
    }
  }
  EXPECT_EQ(streamed, logprobs);
  body = {{"prompt", "p"}, {"logprobs", 0}};
  EXPECT_EQ(exchange(folder.model, body, {says("a")})
                .body()["choices"][0]["logprobs"]["top_logprobs"][0]
                .dump(),
            R"({"a":-0.5})");
}

TEST(Completion, EchoesThePrompt) {
  const ServedFolder folder;
  Json body = {{"prompt", {"ab", "c"}}, {"echo", true}, {"logprobs", 1}};
  const Exchange asked = exchange(folder.model, body, {says("X")});
  EXPECT_EQ(asked.requests[0].prompt_logprobs, 1);
  const Json choices = asked.body()["choices"];
  EXPECT_EQ(choices[0]["text"], "abX");
  EXPECT_EQ(choices[0]["logprobs"]["tokens"], Json({"a", "b", "X"}));
  EXPECT_EQ(choices[0]["logprobs"]["token_logprobs"], Json({nullptr, -0.5, -0.5}));
  EXPECT_EQ(choices[0]["logprobs"]["top_logprobs"][0], nullptr);
  EXPECT_EQ(choices[0]["logprobs"]["text_offset"], Json({0, 1, 2}));
  EXPECT_EQ(choices[1]["text"], "cX");
  // A prompt of token ids is echoed as its text.
  body = {{"prompt", {97, 98}}, {"echo", true}, {"stream", true}};
  const auto chunks = exchange(folder.model, body, {says("X")}).sink->chunks();
  EXPECT_EQ(chunks[0]["choices"][0]["text"], "ab");
  EXPECT_EQ(chunks[1]["choices"][0]["text"], "X");
}

// Clients send such requests to learn how likely a text is.
TEST(Completion, EchoesOnlyThePromptIfNoTokenIsWanted) {
  const ServedFolder folder;
  const Json body = {{"prompt", "ab"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}};
  const Exchange asked =
      exchange(folder.model, body, {{.tokens = {}, .reason = FinishReason::kLength}});
  EXPECT_EQ(asked.requests[0].max_new_tokens, 0);
  EXPECT_EQ(asked.body()["usage"]["completion_tokens"], 0);
  const Json choice = asked.body()["choices"][0];
  EXPECT_EQ(choice["text"], "ab");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"a", "b"}));
  EXPECT_EQ(choice["finish_reason"], "length");
}

// If no token is wanted, the prompt may fill the whole context.
TEST(Completion, PromptMayFillTheContextIfNoTokenIsWanted) {
  const ServedFolder folder;
  const auto tokens = static_cast<size_t>(folder.model.context_tokens);
  Json body = {{"prompt", std::vector<int>(tokens, 'a')}, {"max_tokens", 0}};
  const Exchange asked =
      exchange(folder.model, body, {{.tokens = {}, .reason = FinishReason::kLength}});
  EXPECT_EQ(asked.body()["usage"]["prompt_tokens"], tokens);
  body["max_tokens"] = 1;
  EXPECT_EQ(exchange(folder.model, body, {}).error->code, "context_length_exceeded");
  body = {{"prompt", std::vector<int>(tokens + 1, 'a')}, {"max_tokens", 0}};
  EXPECT_EQ(exchange(folder.model, body, {}).error->code, "context_length_exceeded");
}

// The last byte of the prompt and the first byte of the answer form one character.
TEST(Completion, CompletesACharacterThatThePromptBegan) {
  const ServedFolder folder;
  const Json body = {{"prompt", {'a', 0xC3}}};
  EXPECT_EQ(exchange(folder.model, body, {{.tokens = {0xA9, 'b'}}}).body()["choices"][0]["text"],
            "éb");
}

TEST(Completion, HasTokenIds) {
  const ServedFolder folder;
  Json body = {{"prompt", "ab"}, {"return_token_ids", true}};
  const Json choice = exchange(folder.model, body, {says("X")}).body()["choices"][0];
  EXPECT_EQ(choice["token_ids"], Json({88}));
  EXPECT_EQ(choice["prompt_token_ids"], Json({97, 98}));
  body["stream"] = true;
  const auto chunks = exchange(folder.model, body, {says("XY")}).sink->chunks();
  EXPECT_EQ(chunks[0]["choices"][0]["prompt_token_ids"], Json({97, 98}));
  EXPECT_FALSE(chunks[1]["choices"][0].contains("prompt_token_ids"));
  EXPECT_EQ(chunks[1]["choices"][0]["token_ids"], Json({89}));
}

TEST(Completion, MayHaveASchema) {
  const ServedFolder folder;
  const Json body = {{"prompt", "p"}, {"response_format", {{"type", "json_object"}}}};
  const StructuredOutput output = exchange(folder.model, body, {says("{}")}).structured_output;
  EXPECT_EQ(output.kind, StructuredOutput::Kind::kJsonObject);
  EXPECT_EQ(output.param, "response_format");
}

TEST(Completion, TooLargeAnswerEndsWithAnError) {
  const ServedFolder folder;
  ResponseSettings settings;
  settings.tokenizer = &folder.tokenizer();
  settings.prompts = {bytes("a")};
  settings.logprobs = true;
  settings.most_kept_bytes = 10 * 1000;  // about ten tokens with two likely tokens each
  for (const bool stream : {false, true}) {
    settings.stream = stream;
    const auto sink = std::make_shared<FakeSink>();
    const auto writer =
        std::make_shared<TextCompletionWriter>(settings, TextCompletionSettings(), sink);
    Request request;
    request.prompt = settings.prompts[0];
    request.logprobs = 2;
    play(request, *ResponseWriter::listeners(writer)[0], {says(std::string(50, 'x'))});
    EXPECT_TRUE(sink->ended);
    EXPECT_EQ(sink->status, stream ? 0 : 400) << sink->body;
    EXPECT_EQ(sink->events.size() > 50, stream);
  }
}

}  // namespace
}  // namespace neuronmm::serve
