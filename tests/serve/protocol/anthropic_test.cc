// Tests Anthropic's Messages API: how its blocks become messages of a chat, and answers in its
// formats.

#include <gtest/gtest.h>

#include "serve/output/truncated_json.h"
#include "serve/protocol/fake_server.h"
#include "serve/requests/anthropic_request.h"

namespace neuronmm::serve {
namespace {

ChatRequest parsed(const Json& body) {
  auto request = parse_anthropic_request(body.dump());
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request.ok() ? *std::move(request) : ChatRequest();
}

Json messages_of(const char* body) { return parsed(Json::parse(body)).conversation.messages; }

TEST(MessagesRequest, BlocksBecomeTextsThoughtsCallsAndResults) {
  EXPECT_EQ(
      messages_of(
          R"({"system": [{"type": "text", "text": "s"}, {"type": "text", "text": "t"}], "messages": [
    {"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"},
      {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}},
      {"type": "tool_use", "id": "2", "name": "g", "input": {}}]},
    {"role": "user", "content": [{"type": "text", "text": "c"},
      {"type": "tool_result", "tool_use_id": "1", "content": "one"},
      {"type": "tool_result", "tool_use_id": "2", "is_error": true,
       "content": [{"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}]}]}]})"),
      Json::parse(R"([
    {"role": "system", "content": "s\nt"}, {"role": "user", "content": "a\nb"},
    {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
      {"id": "2", "type": "function", "function": {"name": "g", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "1", "content": "one"},
    {"role": "tool", "tool_call_id": "2", "content": "Error: two"}, {"role": "user", "content": "c"}])"));
}

// Most templates accept only one system message, at the beginning.
TEST(MessagesRequest, LaterSystemMessagesBecomePartOfTheUsersMessage) {
  EXPECT_EQ(messages_of(R"({"system": "s", "messages": [{"role": "system", "content": "t"},
    {"role": "user", "content": "a"}, {"role": "system", "content": "u"}, {"role": "assistant", "content": "b"},
    {"role": "system", "content": "v"}, {"role": "user", "content": "c"}]})"),
            Json::parse(
                R"([{"role": "system", "content": "s\n\nt"}, {"role": "user", "content": "a\n\nu"},
    {"role": "assistant", "content": "b"}, {"role": "user", "content": "c\n\nv"}])"));
}

TEST(MessagesRequest, ConversationWithoutTextHasAnEmptyMessageOfTheUser) {
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "system", "content": []}]})").dump(),
            R"([{"role":"user","content":""}])");
}

TEST(MessagesRequest, LastMessageOfTheAssistantIsContinued) {
  const ChatRequest request = parsed(Json::parse(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"));
  EXPECT_EQ(request.conversation.continue_field, "content");
  EXPECT_FALSE(request.conversation.add_generation_prompt);
}

TEST(MessagesRequest, FieldsBecomeParameters) {
  const ChatRequest request =
      parsed(Json::parse(R"({"max_tokens": 9, "messages": [{"role": "user", "content": "a"}],
    "stop_sequences": ["x", ""], "stop": "y", "thinking": {"type": "disabled"}, "metadata": {"user_id": "u"},
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}, {"name": "g", "defer_loading": true}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}, "output_config": {"effort": "low"}})"));
  EXPECT_EQ(request.parameters.max_tokens, 9);
  EXPECT_EQ(request.parameters.stop, (std::vector<std::string>{"y", "x"}));
  EXPECT_FALSE(request.tools.parallel);
  EXPECT_EQ(request.conversation.template_kwargs["enable_thinking"], false);
  EXPECT_EQ(request.conversation.template_kwargs["reasoning_effort"], "low");
  EXPECT_TRUE(request.parameters.unknown_fields.empty());
  EXPECT_EQ(
      request.conversation.tools.dump(),
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}])");
  for (const char* field : {"output_format", "output_config"}) {
    const Json format = {{"type", "json_schema"}, {"schema", {{"type", "object"}}}};
    const Json body = {
        {"messages", {{{"role", "user"}, {"content", "a"}}}},
        {field, std::string(field) == "output_format" ? format : Json{{"format", format}}}};
    EXPECT_EQ(parsed(body).parameters.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  }
}

TEST(MessagesRequest, ErrorsNameTheFieldAndTheFault) {
  const std::string user = R"("messages": [{"role": "user", "content": "a"}])";
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"{}", "messages: expected an array of at least one message"},
      {R"({"messages": ["x"]})", "messages[0]: expected an object with \"role\" and \"content\""},
      {R"({"messages": [{"role": "tool", "content": "a"}]})", "messages[0].role: expected"},
      {R"({"messages": [{"role": "user"}]})",
       "messages[0].content: expected a string or an array of blocks"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]})",
       "messages[0].content[0].type: expected \"text\" or \"tool_result\""},
      {R"({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]})",
       "messages[0].content[0].id: expected"},
      {"{" + user + R"(, "system": [{"type": "image"}]})", "system[0].type: expected \"text\""},
      {"{" + user + R"(, "tools": [{"type": "web_search_20250305", "name": "web_search"}]})",
       "tools[0].type: expected \"custom\""},
      {"{" + user + R"(, "tools": [{"name": "f"}, {"name": "f"}]})",
       "tools: expected distinct names"},
      {"{" + user + R"(, "tool_choice": {"type": "any"}})",
       "tool_choice: expected \"tools\" to choose from"},
      {"{" + user + R"(, "tools": [{"name": "f"}], "tool_choice": {"type": "tool", "name": "g"}})",
       "tool_choice: expected a function of \"tools\""},
      {"{" + user + R"(, "thinking": {"type": "much"}})", "thinking.type: expected"},
      {"{" + user + R"(, "stop_sequences": [1]})",
       "stop_sequences: expected a string or at most 32"},
      {"{" + user + R"(, "container": "c"})", "container: "}};
  for (const auto& [body, message] : cases) {
    const auto request = parse_anthropic_request(body);
    ASSERT_FALSE(request.ok()) << body;
    EXPECT_NE(request.error().message.find(message), std::string::npos)
        << request.error().message << "\n"
        << message;
  }
}

Json asked(Json fields = Json::object()) {
  Json body = {{"max_tokens", 64}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(fields);
  return body;
}

Json asked_of_tools() { return asked(Json::parse(R"({"tools": [{"name": "f"}, {"name": "g"}]})")); }

Exchange answered(const ServedFolder& folder, const Json& body, const ScriptedAnswer& answer,
                  int64_t cached = 0) {
  return exchange_by(prepare_anthropic, folder.model, body, {answer}, cached);
}

std::vector<Json> events_of(const Exchange& streamed) {
  std::vector<Json> list;
  for (const std::string& event : streamed.sink->events) {
    list.push_back(Json::parse(event.substr(event.find("data: ") + 6)));
    Json data = list.back();
    data.erase("type");
    EXPECT_EQ(event, typed_event(list.back()["type"].get<std::string>(), data));
  }
  return list;
}

TEST(AnthropicWriter, WritesOneMessageWithoutAStream) {
  const ServedFolder folder;
  const Exchange whole = answered(folder, asked(), says("Hello!"), 8);
  EXPECT_EQ(whole.sink->status, 200);
  Json body = whole.body();
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("msg_"));
  body.erase("id");
  EXPECT_EQ(
      body.dump(),
      R"({"type":"message","role":"assistant","model":"small","content":[{"type":"text","text":"Hello!"}],)"
      R"("stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":12,)"
      R"("cache_creation_input_tokens":0,"cache_read_input_tokens":8,"output_tokens":6}})");
}

TEST(AnthropicWriter, StopReasonTellsWhyTheAnswerEnded) {
  const ServedFolder folder;
  const Json cut = answered(folder, asked(), {bytes("Ho"), FinishReason::kLength}).body();
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  const Json stopped =
      answered(folder, asked({{"stop_sequences", {"END"}}}), says("a END b")).body();
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "END");
  EXPECT_EQ(stopped["content"][0]["text"], "a ");
  EXPECT_EQ(answered(folder, asked(), says("")).body()["content"].dump(),
            R"([{"type":"text","text":""}])");
}

constexpr const char* kAnswerOfBlocks =
    "<think>hm</think>I look.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
    "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

// The deltas of a stream add up to the message without a stream, and every block is closed before
// the next one opens.
TEST(AnthropicWriter, StreamAddsUpToTheWholeMessage) {
  const ServedFolder folder(hermes_template() + "{# </think> #}");
  Json body = asked_of_tools();
  const Json whole = answered(folder, body, says(kAnswerOfBlocks)).body();
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  ASSERT_EQ(whole["content"].size(), 4u);
  EXPECT_EQ(whole["content"][0]["thinking"], "hm");
  EXPECT_EQ(whole["content"][2]["input"].dump(), R"({"a":1})");
  body["stream"] = true;
  const auto events = events_of(answered(folder, body, says(kAnswerOfBlocks)));
  EXPECT_EQ(events.front()["type"], "message_start");
  EXPECT_EQ(events.front()["message"]["content"].dump(), "[]");
  EXPECT_EQ(events.back()["type"], "message_stop");
  std::vector<std::string> texts;
  bool open = false;
  for (const Json& event : events) {
    const std::string type = event["type"];
    const size_t index = texts.size() - (open ? 1 : 0);
    EXPECT_EQ(event.value("index", index), index);
    if (type == "content_block_start") texts.emplace_back();
    if (type == "content_block_start" || type == "content_block_stop") open = !open;
    for (const char* key : {"text", "thinking", "partial_json"})
      if (type == "content_block_delta") texts.back() += event["delta"].value(key, "");
  }
  EXPECT_FALSE(open);
  EXPECT_EQ(texts, (std::vector<std::string>{"hm", "I look.", "{\"a\": 1}", "{}"}));
  const Json& end = events[events.size() - 2];
  EXPECT_EQ(end["type"], "message_delta");
  EXPECT_EQ(end["delta"]["stop_reason"], "tool_use");
  EXPECT_EQ(end["usage"], whole["usage"]);
}

TEST(AnthropicWriter, TruncatedCallKeepsTheCompletePartsOfItsInput) {
  const ServedFolder folder;
  Json body = asked_of_tools();
  body["tool_choice"] = {{"type", "tool"}, {"name", "f"}};
  const std::string text =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2], \"b\": \"hal";
  const Json cut = answered(folder, body, {bytes(text), FinishReason::kLength}).body();
  ASSERT_EQ(cut["content"].size(), 1u);
  EXPECT_EQ(cut["content"][0]["input"].dump(), R"({"a":[1,2]})");
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
}

TEST(AnthropicWriter, ErrorsHaveAnthropicsFormat) {
  const ServedFolder folder;
  ScriptedAnswer broken = says("a");
  broken.reason = FinishReason::kError;
  broken.message = "no memory";
  const Exchange whole = answered(folder, asked(), broken);
  EXPECT_EQ(whole.sink->status, 500);
  EXPECT_EQ(whole.body()["error"]["type"], "api_error");
  const Exchange streamed = answered(folder, asked({{"stream", true}}), broken);
  EXPECT_TRUE(streamed.sink->events.back().starts_with("event: error\ndata: {\"type\":\"error\""));
}

TEST(MessagesErrors, TooLongPromptHasAnthropicsWords) {
  const Json body = Json::parse(anthropic_error_json(prompt_too_long("messages", 600, 512)));
  EXPECT_EQ(body["type"], "error");
  EXPECT_EQ(body["error"]["type"], "invalid_request_error");
  EXPECT_TRUE(body["error"]["message"].get<std::string>().starts_with(
      "prompt is too long: 600 tokens > 511 maximum."));
}

TEST(CountTokens, CountsThePrompt) {
  const ServedFolder folder;
  const auto counted = count_tokens_response(folder.model, asked().dump());
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(*counted, R"({"input_tokens":20})");
  EXPECT_FALSE(count_tokens_response(folder.model, "{}").ok());
}

// Every prefix of a text gives an object whose members are among those of the whole object.
TEST(CutJson, PrefixesKeepTheCompleteMembers) {
  const std::string text =
      R"({"a": "x\"}", "b": [1, {"c": null}, "y"], "d": {"e": 2.5}, "f": true})";
  const Json whole = parse_truncated_object(text);
  EXPECT_EQ(whole, Json::parse(text));
  size_t members = 0;
  for (size_t length = 0; length <= text.size(); ++length) {
    const Json part = parse_truncated_object(std::string_view(text).substr(0, length));
    ASSERT_TRUE(part.is_object()) << length;
    EXPECT_GE(part.size(), members) << length;
    members = part.size();
    for (const auto& [key, value] : part.items()) {
      ASSERT_TRUE(whole.contains(key)) << length << part;
      EXPECT_TRUE(value.is_structured() || value == whole[key]) << length << part;
    }
  }
  EXPECT_EQ(members, whole.size());
  for (const char* other : {"", "[1]", "}", "nul", "{\"a\" 1"})
    EXPECT_EQ(parse_truncated_object(other), Json::object()) << other;
}

}  // namespace
}  // namespace neuronmm::serve
