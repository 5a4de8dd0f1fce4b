// Tests answers to chats in the formats that OpenAI documents.

#include "serve/responses/chat_completion_writer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

Json chat_with(const Json& fields = Json::object()) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(fields);
  return body;
}

Json with_tool(Json body) {
  body["tools"] = Json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  return body;
}

std::string without_id(Json body) {
  const std::string id = body["id"];
  EXPECT_TRUE(id.starts_with("chatcmpl-")) << id;
  EXPECT_EQ(id.size(), 9u + 32u);
  body.erase("id");
  return body.dump();
}

constexpr int kPromptTokens = 1 + 19;  // <|begin|> and the bytes of "|user|Hi|assistant|"

TEST(ChatCompletion, WritesOneObjectWithoutAStream) {
  const ServedFolder folder;
  ScriptedAnswer answer = says("Hello!");
  answer.stop_token = kEndId;
  const Exchange whole = exchange(folder.model, chat_with(), {answer}, 8);
  EXPECT_EQ(whole.sink->status, 200);
  EXPECT_TRUE(whole.sink->ended);
  EXPECT_EQ(std::ssize(whole.requests[0].prompt), kPromptTokens);
  EXPECT_EQ(without_id(whole.body()),
            R"({"object":"chat.completion","created":1700000001,"model":"small",)"
            R"("system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"Hello!","refusal":null},"logprobs":null,"finish_reason":"stop",)"
            R"("stop_reason":null}],"usage":{"prompt_tokens":20,"completion_tokens":6,)"
            R"("total_tokens":26,"prompt_tokens_details":{"cached_tokens":8}}})");
}

TEST(ChatCompletion, WritesChunksInAStream) {
  const ServedFolder folder;
  const Json body = chat_with({{"stream", true}, {"model", "alias"}});
  const Exchange streamed = exchange(folder.model, body, {{bytes("Hi"), FinishReason::kLength}});
  ASSERT_EQ(streamed.sink->events.size(), 5u);
  EXPECT_EQ(streamed.sink->events[4], "data: [DONE]\n\n");
  EXPECT_TRUE(streamed.sink->ended);
  const auto chunks = streamed.sink->chunks();
  const std::string head =
      R"({"object":"chat.completion.chunk","created":1700000001,"model":"small",)"
      R"("system_fingerprint":"fp","choices":[{"index":0,"delta":)";
  EXPECT_EQ(without_id(chunks[0]), head + R"({"role":"assistant","content":""},"logprobs":null,)"
                                          R"("finish_reason":null}]})");
  EXPECT_EQ(without_id(chunks[1]),
            head + R"({"content":"H"},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(without_id(chunks[2]),
            head + R"({"content":"i"},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(without_id(chunks[3]),
            head + R"({},"logprobs":null,"finish_reason":"length","stop_reason":null}]})");
  for (const Json& chunk : chunks) EXPECT_EQ(chunk["id"], chunks[0]["id"]);
}

TEST(ChatCompletion, StreamEndsWithTheUsage) {
  const ServedFolder folder;
  Json body = chat_with({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  auto chunks = exchange(folder.model, body, {says("Hi")}, 4).sink->chunks();
  ASSERT_EQ(chunks.size(), 5u);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(chunks[i].at("usage").is_null());
  EXPECT_EQ(chunks[4]["choices"].dump(), "[]");
  EXPECT_EQ(chunks[4]["usage"].dump(),
            R"({"prompt_tokens":20,"completion_tokens":2,"total_tokens":22,)"
            R"("prompt_tokens_details":{"cached_tokens":4}})");
  body["stream_options"]["continuous_usage_stats"] = true;
  chunks = exchange(folder.model, body, {says("Hi")}).sink->chunks();
  EXPECT_EQ(chunks[1]["usage"]["completion_tokens"], 1);
}

TEST(ChatCompletion, NeverSplitsCharacters) {
  const ServedFolder folder;
  const Json body = chat_with({{"stream", true}});
  std::vector<std::string> contents;
  for (const Json& chunk : exchange(folder.model, body, {says("é😀\xF0\x9F")}).sink->chunks())
    contents.push_back(chunk["choices"][0]["delta"].value("content", "-"));
  // An incomplete character leaves one U+FFFD.
  EXPECT_EQ(contents, (std::vector<std::string>{"", "é", "😀", "\xEF\xBF\xBD", "-"}));
}

TEST(ChatCompletion, TextEndsBeforeAStopString) {
  const ServedFolder folder;
  Json body = chat_with({{"stop", {"END", "xyz"}}, {"stream", true}});
  const std::vector<ScriptedAnswer> answers = {says("a EN ENDless")};
  std::string content;
  Json last;
  for (const Json& chunk : exchange(folder.model, body, answers).sink->chunks()) {
    const std::string text = chunk["choices"][0]["delta"].value("content", "");
    EXPECT_EQ(text.find("END"), std::string::npos);
    content += text;
    last = chunk["choices"][0];
  }
  EXPECT_EQ(content, "a EN ");
  EXPECT_EQ(last["finish_reason"], "stop");
  EXPECT_EQ(last["stop_reason"], "END");
  body.erase("stream");
  const auto content_of = [&](const Json& asked) -> std::string {
    const Exchange whole = exchange(folder.model, asked, answers);
    return whole.body()["choices"][0]["message"]["content"];
  };
  EXPECT_EQ(content_of(body), "a EN ");
  body["include_stop_str_in_output"] = true;
  EXPECT_EQ(content_of(body), "a EN END");
  body["min_tokens"] = 8;  // stop strings within "a EN END" are ignored
  EXPECT_EQ(content_of(body), "a EN ENDless");
  body["min_tokens"] = 7;
  EXPECT_EQ(content_of(body), "a EN ENDless");
  body["min_tokens"] = 5;
  EXPECT_EQ(content_of(body), "a EN END");
}

TEST(ChatCompletion, HasLogprobs) {
  const ServedFolder folder;
  Json body = chat_with({{"logprobs", true}, {"top_logprobs", 2}});
  const Json whole = exchange(folder.model, body, {says("A\xC3\xA9")}).body()["choices"][0];
  EXPECT_EQ(whole["logprobs"]["refusal"], nullptr);
  const Json content = whole["logprobs"]["content"];
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content[0].dump(),
            R"({"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[{"token":"A","logprob":)"
            R"(-0.5,"bytes":[65]},{"token":"B","logprob":-0.25,"bytes":[66]}]})");
  // The token is a part of a character.
  EXPECT_EQ(content[1]["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(content[1]["bytes"].dump(), "[195]");
  body["stream"] = true;
  Json streamed = Json::array();
  for (const Json& chunk : exchange(folder.model, body, {says("A\xC3\xA9")}).sink->chunks()) {
    const Json& logprobs = chunk["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    for (const Json& token : logprobs["content"]) streamed.push_back(token);
  }
  EXPECT_EQ(streamed, content);
  body = chat_with({{"logprobs", true}});
  EXPECT_EQ(exchange(folder.model, body, {says("A")})
                .body()["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
                .dump(),
            "[]");
}

TEST(ChatCompletion, HasTokenIds) {
  const ServedFolder folder;
  Json body = chat_with({{"return_token_ids", true}});
  const Exchange whole = exchange(folder.model, body, {says("AB")});
  EXPECT_EQ(whole.body()["choices"][0]["token_ids"], Json::parse("[65,66]"));
  EXPECT_EQ(whole.body()["prompt_token_ids"], Json(whole.requests[0].prompt));
  body["stream"] = true;
  std::vector<TokenId> streamed;
  const auto chunks = exchange(folder.model, body, {says("AB")}).sink->chunks();
  for (const Json& chunk : chunks) {
    for (const Json& id : chunk["choices"][0].value("token_ids", Json::array()))
      streamed.push_back(id);
  }
  EXPECT_EQ(streamed, bytes("AB"));
  EXPECT_EQ(chunks[0]["prompt_token_ids"], Json(whole.requests[0].prompt));
  EXPECT_FALSE(chunks[1].contains("prompt_token_ids"));
}

TEST(ChatCompletion, HasToolCalls) {
  const ServedFolder folder;
  const std::string text =
      "Well.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const Json choice =
      exchange(folder.model, with_tool(chat_with()), {says(text)}).body()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Well.");
  Json calls = choice["message"]["tool_calls"];
  const std::string id = calls[0]["id"];
  EXPECT_TRUE(id.starts_with("call_"));
  EXPECT_EQ(id.size(), 5u + 24u);
  calls[0].erase("id");
  EXPECT_EQ(calls.dump(),
            R"([{"type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}])");
  const std::string call = text.substr(text.find('<'));
  EXPECT_TRUE(exchange(folder.model, with_tool(chat_with()), {says(call)})
                  .body()["choices"][0]["message"]["content"]
                  .is_null());
  // If no tool may be called, nothing is read as a call.
  const Json none = with_tool(chat_with({{"tool_choice", "none"}}));
  EXPECT_EQ(exchange(folder.model, none, {says(text)}).body()["choices"][0]["message"]["content"],
            text);
  Json named = with_tool(chat_with());
  named["tool_choice"] = Json::parse(R"({"type": "function", "function": {"name": "f"}})");
  EXPECT_EQ(exchange(folder.model, named, {says(call)}).body()["choices"][0]["finish_reason"],
            "stop");
}

// Otherwise a client would run a call whose arguments are not valid JSON.
TEST(ChatCompletion, CallThatAStopStringCutsOffIsNotReported) {
  const ServedFolder folder;
  const std::string text =
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x}b\"}}</tool_call>\nEND";
  const auto reason_of = [&](const char* stop) -> std::string {
    const Json body = with_tool(chat_with({{"stop", stop}}));
    return exchange(folder.model, body, {says(text)}).body()["choices"][0]["finish_reason"];
  };
  EXPECT_EQ(reason_of("}b"), "stop");
  EXPECT_EQ(reason_of("END"), "tool_calls");
}

TEST(ChatCompletion, NamesTheStopTokenOfTheRequest) {
  const ServedFolder folder;
  ScriptedAnswer answer = says("Hello!");
  answer.stop_token = kEndId;
  const Json body = chat_with({{"stop_token_ids", Json::array({kEndId})}});
  EXPECT_EQ(exchange(folder.model, body, {answer}).body()["choices"][0]["stop_reason"], kEndId);
}

TEST(ChatCompletion, StreamsCalls) {
  const ServedFolder folder;
  const std::string text =
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>\n"
      "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  Json body = with_tool(chat_with({{"stream", true}}));
  const auto chunks = exchange(folder.model, body, {says(text)}).sink->chunks();
  std::vector<std::string> names, arguments, ids;
  for (const Json& chunk : chunks) {
    const Json& delta = chunk["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    ASSERT_EQ(delta["tool_calls"].size(), 1u);
    const Json& call = delta["tool_calls"][0];
    const size_t index = call["index"];
    if (call.contains("id")) {
      EXPECT_EQ(index, names.size());
      EXPECT_EQ(call["type"], "function");
      EXPECT_EQ(call["function"]["arguments"], "");
      ids.push_back(call["id"]);
      names.push_back(call["function"]["name"]);
      arguments.emplace_back();
    } else {
      EXPECT_EQ(call.size(), 2u);
      EXPECT_EQ(call["function"].size(), 1u);
      arguments[index] += call["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"f", "f"}));
  EXPECT_EQ(arguments, (std::vector<std::string>{"{\"a\": 1}", "{}"}));
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(chunks.back()["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(chunks.back()["choices"][0]["delta"].dump(), "{}");
  body["parallel_tool_calls"] = false;
  for (const Json& chunk : exchange(folder.model, body, {says(text)}).sink->chunks()) {
    const Json& delta = chunk["choices"][0]["delta"];
    if (delta.contains("tool_calls")) {
      EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
    }
  }
}

// [TOOL_CALLS] is a special token, which otherwise has no text. The ids have the form that
// Mistral's templates demand.
TEST(ChatCompletion, HasCallsInMistralsSyntax) {
  const ServedFolder folder(
      "{% if tools %}[TOOL_CALLS]{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}");
  ScriptedAnswer answer = {.tokens = {kToolCallsId}};
  for (const TokenId id : bytes("[{\"name\": \"f\", \"arguments\": {}}]"))
    answer.tokens.push_back(id);
  const Json message =
      exchange(folder.model, with_tool(chat_with()), {answer}).body()["choices"][0]["message"];
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  const std::string id = message["tool_calls"][0]["id"];
  EXPECT_EQ(id.size(), 9u);
  EXPECT_TRUE(std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c); }));
  EXPECT_EQ(
      exchange(folder.model, chat_with(), {answer}).body()["choices"][0]["message"]["content"],
      "[{\"name\": \"f\", \"arguments\": {}}]");
}

TEST(ChatCompletion, HasReasoningContent) {
  const std::string source =
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is defined %}"
      "{{ '<think>' if enable_thinking else '<think>\n\n</think>\n\n' }}{% endif %}";
  const ServedFolder folder(source);
  const auto message = [&](const Json& fields, std::string_view text) {
    return exchange(folder.model, chat_with(fields), {says(text)})
        .body()["choices"][0]["message"]
        .dump();
  };
  const auto expected = [](const std::string& content, const std::string& thoughts) {
    Json json = {{"role", "assistant"}, {"content", content}, {"refusal", nullptr}};
    if (!thoughts.empty()) json["reasoning_content"] = thoughts;
    return json.dump();
  };
  const Json on = {{"chat_template_kwargs", {{"enable_thinking", true}}}};
  const Json off = {{"chat_template_kwargs", {{"enable_thinking", false}}}};
  EXPECT_EQ(message(Json::object(), "<think>\nHm\n</think>\n\nHi"), expected("Hi", "Hm"));
  EXPECT_EQ(message(Json::object(), "Hi"), expected("Hi", ""));
  EXPECT_EQ(message(on, "\nHm</think>Hi"), expected("Hi", "Hm"));
  EXPECT_EQ(message(off, "Hi"), expected("Hi", ""));
  EXPECT_EQ(message(off, "<think>"), expected("<think>", ""));
  Json body = chat_with({{"stream", true}});
  body.update(on);
  std::string thoughts, content;
  for (const Json& chunk : exchange(folder.model, body, {says("Hm</think>Hi")}).sink->chunks()) {
    const Json& delta = chunk["choices"][0]["delta"];
    thoughts += delta.value("reasoning_content", "");
    content += delta.value("content", "");
  }
  EXPECT_EQ(thoughts, "Hm");
  EXPECT_EQ(content, "Hi");
}

TEST(ChatCompletion, ContinuesTheLastMessage) {
  const ServedFolder folder;
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": "q"},
    {"role": "assistant", "content": "so far"}], "continue_final_message": true, "echo": true})");
  const Exchange whole = exchange(folder.model, body, {says(" so good")});
  const std::string prompt = folder.tokenizer().decode(whole.requests[0].prompt);
  EXPECT_TRUE(prompt.ends_with("|assistant|so far")) << prompt;
  EXPECT_EQ(whole.body()["choices"][0]["message"]["content"], "so far so good");
}

TEST(ChatCompletion, HasSeveralChoices) {
  const ServedFolder folder;
  Json body = chat_with({{"n", 2}});
  const Exchange whole = exchange(folder.model, body, {says("A"), says("BC")});
  EXPECT_EQ(whole.body()["choices"][1]["index"], 1);
  EXPECT_EQ(whole.body()["choices"][1]["message"]["content"], "BC");
  EXPECT_EQ(whole.body()["usage"]["completion_tokens"], 3);
  EXPECT_EQ(whole.body()["usage"]["prompt_tokens"], kPromptTokens);
  body["stream"] = true;
  std::vector<std::string> contents(2);
  const Exchange streamed = exchange(folder.model, body, {says("A"), says("BC")});
  for (const Json& chunk : streamed.sink->chunks()) {
    const Json& choice = chunk["choices"][0];
    contents[choice["index"].get<size_t>()] += choice["delta"].value("content", "");
  }
  EXPECT_EQ(contents, (std::vector<std::string>{"A", "BC"}));
  EXPECT_EQ(streamed.sink->events.back(), kDoneEvent);
}

// The chunks of a stream add up to the answer without a stream.
TEST(ChatCompletion, StreamAddsUpToTheWholeAnswer) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const ServedFolder folder;
  const std::vector<std::string> parts = {
      "<tool_call>",  "{\"name\": \"f\", \"arguments\": {\"é\": [1]}}",
      "</tool_call>", "\n",
      "STOP",         "ST",
      "word ",        "é",
      "\xF0\x9F",     "{"};
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (size_t count = random() % 10; count > 0; --count) text += parts[random() % parts.size()];
    const std::vector<ScriptedAnswer> answers = {says(text)};
    Json body = with_tool(chat_with({{"stop", "STOP"}, {"logprobs", true}, {"top_logprobs", 1}}));
    const Json whole = exchange(folder.model, body, answers).body()["choices"][0];
    body["stream"] = true;
    Json message = {{"content", ""}, {"calls", Json::array()}, {"logprobs", Json::array()}};
    for (const Json& chunk : exchange(folder.model, body, answers).sink->chunks()) {
      const Json& choice = chunk["choices"][0];
      const Json& delta = choice["delta"];
      message["content"] = message["content"].get<std::string>() + delta.value("content", "");
      if (!choice["logprobs"].is_null()) {
        for (const Json& token : choice["logprobs"]["content"])
          message["logprobs"].push_back(token);
      }
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        if (call.contains("id")) message["calls"].push_back(call["function"]["name"]);
        Json& call_text = message["calls"].back();
        call_text = call_text.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
      message["finish_reason"] = choice["finish_reason"];
    }
    Json calls = Json::array();
    for (const Json& call : whole["message"].value("tool_calls", Json::array())) {
      calls.push_back(call["function"]["name"].get<std::string>() +
                      call["function"]["arguments"].get<std::string>());
    }
    const Json& content = whole["message"]["content"];
    EXPECT_EQ(message["content"], content.is_null() ? Json("") : content) << text;
    EXPECT_EQ(message["calls"], calls) << text;
    EXPECT_EQ(message["finish_reason"], whole["finish_reason"]);
    EXPECT_EQ(message["logprobs"],
              whole["logprobs"].is_null() ? Json::array() : whole["logprobs"]["content"]);
  }
}

}  // namespace
}  // namespace neuronmm::serve
