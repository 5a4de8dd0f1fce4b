// Tests OpenAI's Responses API: how its items become messages, and answers in its formats.

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "serve/requests/responses_api_request.h"

namespace neuronmm::serve {
namespace {

Json messages_of(const Json& body) {
  const auto parsed = parse_responses_api_request(body.dump());
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed->chat.conversation.messages : Json();
}

Json items(std::initializer_list<const char*> list) {
  Json input = Json::array();
  for (const char* item : list) input.push_back(Json::parse(item));
  return {{"input", input}};
}

TEST(ResponsesApiRequest, TextInputIsAMessageOfTheUser) {
  EXPECT_EQ(messages_of({{"input", "Hi"}}).dump(), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(messages_of({{"input", "Hi"}, {"instructions", "Be kind."}}).dump(),
            R"([{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"}])");
}

TEST(ResponsesApiRequest, CallsAndThoughtsBelongToTheAssistantsMessage) {
  const Json body = items(
      {R"({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]})",
       R"({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]})",
       R"({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
           "content": [{"type": "output_text", "text": "I look.", "annotations": []}]})",
       R"({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"x\": 1}", "id": "fc_1"})",
       R"({"type": "function_call", "call_id": "c2", "name": "g", "arguments": ""})",
       R"({"type": "function_call_output", "call_id": "c1", "output": "one"})",
       R"({"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]})",
       R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]})",
       R"({"role": "assistant", "content": "Done."})", R"({"role": "user", "content": "c"})"});
  EXPECT_EQ(messages_of(body), Json::parse(R"([
    {"role": "user", "content": "a\nb"},
    {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
      {"id": "c2", "type": "function", "function": {"name": "g", "arguments": {}}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "one"},
    {"role": "tool", "tool_call_id": "c2", "content": "two"},
    {"role": "assistant", "content": "Done.", "reasoning_content": "so"},
    {"role": "user", "content": "c"}])"));
}

TEST(ResponsesApiRequest, ConsecutiveAnswersStaySeparate) {
  const Json body =
      items({R"({"role": "assistant", "content": "a"})", R"({"role": "assistant", "content": "b"})",
             R"({"type": "reasoning", "summary": [], "content": null})",
             R"({"type": "function_call", "call_id": "c", "name": "f"})"});
  EXPECT_EQ(messages_of(body), Json::parse(R"([
    {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"},
    {"role": "assistant", "content": "", "tool_calls": [
      {"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}]}])"));
}

// Most templates accept only one system message, at the beginning.
TEST(ResponsesApiRequest, FirstSystemMessagesAreMergedWithTheInstructions) {
  Json body =
      items({R"({"role": "developer", "content": "b"})", R"({"role": "system", "content": "c"})",
             R"({"role": "user", "content": "d"})", R"({"role": "system", "content": "e"})"});
  EXPECT_EQ(messages_of(body)[0]["content"], "b\n\nc");
  body["instructions"] = "a";
  const Json messages = messages_of(body);
  EXPECT_EQ(messages[0]["content"], "a\n\nb\n\nc");
  EXPECT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[2]["content"], "e");
}

TEST(ResponsesApiRequest, FieldsBecomeParameters) {
  const auto parsed =
      parse_responses_api_request(R"({"input": "x", "max_output_tokens": 9, "top_logprobs": 3,
    "reasoning": {"effort": "none", "summary": "auto"}, "store": true, "truncation": "auto",
    "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}],
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"}})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ChatRequest& chat = parsed->chat;
  EXPECT_EQ(chat.parameters.max_tokens, 9);
  EXPECT_EQ(chat.parameters.logprobs, 3);
  EXPECT_EQ(chat.parameters.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(chat.parameters.response_format.param, "text.format");
  EXPECT_TRUE(chat.parameters.unknown_fields.empty());
  EXPECT_EQ(chat.conversation.template_kwargs["enable_thinking"], false);
  // Templates get tools in the format of chats.
  EXPECT_EQ(
      chat.conversation.tools.dump(),
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}])");
  const auto likely =
      parse_responses_api_request(R"({"input": "x", "include": ["message.output_text.logprobs"]})");
  ASSERT_TRUE(likely.ok());
  EXPECT_EQ(likely->chat.parameters.logprobs, 0);
}

// Programs send such tools whether the model needs them or not.
TEST(ResponsesApiRequest, ToolsThatOnlyOpenAisServersRunAreIgnored) {
  const auto parsed = parse_responses_api_request(
      R"({"input": "x", "tools": [{"type": "web_search", "external_web_access": false},
                                  {"type": "function", "name": "f"}, {"type": "image_generation"}]})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->chat.tools.tools.size(), 1u);
  EXPECT_EQ(parsed->chat.conversation.tools.size(), 1u);
  EXPECT_EQ(parsed->chat.parameters.unknown_fields,
            (std::vector<std::string>{"tools.web_search", "tools.image_generation"}));
}

TEST(ResponsesApiRequest, ConsecutiveThoughtsAreMerged) {
  EXPECT_EQ(
      messages_of(
          items({R"({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "a"}]})",
                 R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "b"}]})",
                 R"({"role": "assistant", "content": "c"})"}))
          .dump(),
      R"([{"role":"assistant","content":"c","reasoning_content":"a\nb"}])");
}

// The limit holds however a request distributes the functions over namespaces.
TEST(ResponsesApiRequest, NumberOfFunctionsIsLimited) {
  Json body = {{"input", "x"}, {"tools", Json::array()}};
  for (const char* space : {"s", "t"}) {
    Json functions = Json::array();
    for (int i = 0; i < 600; ++i) functions.push_back({{"name", fmt::format("f{}", i)}});
    body["tools"].push_back({{"type", "namespace"}, {"name", space}, {"tools", functions}});
  }
  const auto parsed = parse_responses_api_request(body.dump());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message, "tools: expected at most 1024 functions");
  body["tools"].erase(1);
  EXPECT_TRUE(parse_responses_api_request(body.dump()).ok());
}

// Otherwise the lines of the log could become very long.
TEST(ResponsesApiRequest, NamesOfIgnoredToolsAreShort) {
  const Json hosted = {{"type", "web_search" + std::string(1000, 'a')}};
  Json body = {{"input", "x"}, {"tools", Json::array()}};
  for (int i = 0; i < 100; ++i) body["tools"].push_back(hosted);
  const auto parsed = parse_responses_api_request(body.dump());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->chat.parameters.unknown_fields.size(), 16u);
  EXPECT_EQ(parsed->chat.parameters.unknown_fields[0].size(), 64u);
}

TEST(ResponsesApiRequest, ErrorsNameTheFieldAndTheFault) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({})", "input: expected a string or an array of at least one item, found nothing"},
      {R"({"input": []})", "input: expected a string or an array of at least one item"},
      {R"({"input": ["x"]})", "input[0]: expected an object with \"type\", found \"x\""},
      {R"({"input": [{"type": "item_reference", "id": "msg_1"}]})", "input[0].type: expected"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]})",
       "input[0].content[0].type: expected \"text\""},
      {R"({"input": [{"type": "function_call", "name": "f"}]})", "input[0].call_id: expected"},
      {R"({"input": [{"type": "function_call_output", "call_id": "c"}]})", "input[0].output: "},
      {R"({"input": [{"type": "reasoning", "content": ["x"]}]})", "input[0].content: expected"},
      {R"({"input": "x", "previous_response_id": "resp_1"})", "previous_response_id: "},
      {R"({"input": "x", "conversation": "conv_1"})", "conversation: "},
      {R"({"input": "x", "background": true})", "background: expected false"},
      {R"({"input": "x", "n": 2})", "n: expected 1"},
      {R"({"input": "x", "max_tokens": 5})", "max_tokens: "},
      {R"({"input": "x", "tools": [{"type": "local_shell"}]})",
       "tools[0].type: expected \"function\", \"custom\""},
      {R"({"input": "x", "tools": [{"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark",
           "definition": "start: x"}}]})",
       "tools[0].format.syntax: expected \"regex\""},
      {R"({"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"})",
       "tool_choice: expected \"tools\" to choose from"},
      {R"({"input": "x", "tools": [{"type": "namespace", "name": "s", "tools": [{"type": "custom"}]}]})",
       "tools[0].tools[0].type: expected \"function\""},
      {R"({"input": "x", "tools": [{"type": "function", "function": {"name": "f"}}]})",
       "tools[0].name: expected a string"},
      {R"({"input": "x", "tools": [{"name": "f"}], "tool_choice": {"type": "function", "name": "g"}})",
       "tool_choice: expected a function of \"tools\""},
      {R"({"input": "x", "text": {"format": {"type": "json_object"}}, "guided_regex": "a"})",
       "text.format: expected one shape"},
      {R"({"input": "x", "text": {"format": {"type": "xml"}}})", "text.format.type: expected"}};
  for (const auto& [body, message] : cases) {
    const auto parsed = parse_responses_api_request(body);
    ASSERT_FALSE(parsed.ok()) << body;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_NE(parsed.error().message.find(message), std::string::npos)
        << parsed.error().message << "\n"
        << message;
  }
}

std::string without_ids(const Json& value) {
  std::string text = value.dump();
  for (const char* prefix : {"resp_", "msg_", "rs_", "fc_", "call_"}) {
    const size_t length = std::string_view(prefix) == "call_" ? 24 : 32;
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
      const size_t begin = at + std::string_view(prefix).size();
      if (begin >= 3 && text[at - 1] == '"' && text[begin + length] == '"')
        text.erase(begin, length);
    }
  }
  return text;
}

TEST(ResponsesApiWriter, WritesOneResponseWithoutAStream) {
  const ServedFolder folder;
  ScriptedAnswer answer = says("Hello!");
  answer.stop_token = kEndId;
  const Exchange whole =
      exchange(folder.model, {{"input", "Hi"}, {"temperature", 0.5}, {"metadata", {{"a", "b"}}}},
               {answer}, 8);
  EXPECT_EQ(whole.sink->status, 200);
  EXPECT_TRUE(whole.sink->ended);
  EXPECT_EQ(
      without_ids(whole.body()),
      R"({"id":"resp_","object":"response","created_at":1700000001,"status":"completed","error":null,)"
      R"("incomplete_details":null,"model":"small","output":[{"id":"msg_","type":"message",)"
      R"("role":"assistant","content":[{"type":"output_text","text":"Hello!","annotations":[],)"
      R"("logprobs":[]}],"status":"completed"}],"background":false,"instructions":null,)"
      R"("max_output_tokens":null,"max_tool_calls":null,"metadata":{"a":"b"},)"
      R"("parallel_tool_calls":true,"previous_response_id":null,)"
      R"("reasoning":{"effort":null,"summary":null},"service_tier":"default","store":false,)"
      R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,)"
      R"("truncation":"disabled","user":null,"temperature":0.5,"top_p":1.0,)"
      R"("usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":0},"output_tokens":6,)"
      R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":26}})");
}

TEST(ResponsesApiWriter, WritesTypedEventsInAStream) {
  const ServedFolder folder;
  const Exchange streamed = exchange(folder.model, {{"input", "Hi"}, {"stream", true}},
                                     {{bytes("Ho"), FinishReason::kLength}});
  EXPECT_TRUE(streamed.sink->ended);
  const auto events = streamed.sink->typed_events();
  const std::string part = R"({"type":"output_text","text":"Ho","annotations":[],"logprobs":[]})";
  const std::string item = R"({"id":"msg_","type":"message","role":"assistant","content":[)" +
                           part + R"(],"status":"incomplete"})";
  const std::string at = R"("output_index":0,"item_id":"msg_","content_index":0,)";
  const std::vector<std::string> expected = {
      R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_",)"
      R"("type":"message","role":"assistant","content":[],"status":"in_progress"}})",
      R"({"type":"response.content_part.added","sequence_number":3,)" + at +
          R"("part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}})",
      R"({"type":"response.output_text.delta","sequence_number":4,)" + at +
          R"("delta":"H","logprobs":[]})",
      R"({"type":"response.output_text.delta","sequence_number":5,)" + at +
          R"("delta":"o","logprobs":[]})",
      R"({"type":"response.output_text.done","sequence_number":6,)" + at +
          R"("text":"Ho","logprobs":[]})",
      R"({"type":"response.content_part.done","sequence_number":7,)" + at + R"("part":)" + part +
          "}",
      R"({"type":"response.output_item.done","sequence_number":8,"output_index":0,"item":)" + item +
          "}"};
  ASSERT_EQ(events.size(), 2 + expected.size() + 1);
  EXPECT_EQ(events[0]["type"], "response.created");
  EXPECT_EQ(events[1]["type"], "response.in_progress");
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(events[i]["response"]["status"], "in_progress");
    EXPECT_TRUE(events[i]["response"]["usage"].is_null());
  }
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(without_ids(events[2 + i]), expected[i]);
  const Json& last = events.back();
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(last["response"]["output"][0], events[8]["item"]);
  EXPECT_EQ(last["response"]["usage"]["output_tokens"], 2);
}

Json asked_with_tools() {
  return Json::parse(R"({"input": "Hi", "tools": [{"type": "function", "name": "f"},
                                                  {"type": "function", "name": "g"}]})");
}

constexpr const char* kThoughtsAndCalls =
    "<think>hm</think>I look.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
    "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

TEST(ResponsesApiWriter, ThoughtsTextAndCallsBecomeItems) {
  const ServedFolder folder(hermes_template() + "{# </think> #}");
  const Json body = exchange(folder.model, asked_with_tools(), {says(kThoughtsAndCalls)}).body();
  const Json& output = body["output"];
  ASSERT_EQ(output.size(), 4u);
  EXPECT_EQ(output[0]["content"].dump(), R"([{"type":"reasoning_text","text":"hm"}])");
  EXPECT_EQ(output[1]["content"][0]["text"], "I look.");
  EXPECT_EQ(output[2]["name"], "f");
  EXPECT_EQ(output[2]["arguments"], "{\"a\": 1}");
  EXPECT_EQ(output[3]["name"], "g");
  EXPECT_NE(output[2]["call_id"], output[3]["call_id"]);
  const int64_t thoughts = body["usage"]["output_tokens_details"]["reasoning_tokens"];
  EXPECT_GE(thoughts, 2);
  EXPECT_LT(thoughts, body["usage"]["output_tokens"].get<int64_t>());
}

// The deltas of a stream add up to the response without a stream, and every item is closed before
// the next one opens.
TEST(ResponsesApiWriter, StreamAddsUpToTheWholeResponse) {
  const ServedFolder folder(hermes_template() + "{# </think> #}");
  Json asked = asked_with_tools();
  const Json whole = exchange(folder.model, asked, {says(kThoughtsAndCalls)}).body();
  asked["stream"] = true;
  const auto events = exchange(folder.model, asked, {says(kThoughtsAndCalls)}).sink->typed_events();
  std::vector<std::string> added;
  Json done = Json::array();
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") {
      EXPECT_EQ(added.size(), done.size());
      added.emplace_back();
    }
    if (type.ends_with(".delta")) added.back() += event["delta"].get<std::string>();
    if (type == "response.output_item.done") done.push_back(event["item"]);
    EXPECT_EQ(event.value("output_index", added.size() - 1), added.size() - 1);
  }
  EXPECT_EQ(without_ids(done), without_ids(whole["output"]));
  EXPECT_EQ(without_ids(events.back()["response"]), without_ids(whole));
  EXPECT_EQ(added, (std::vector<std::string>{"hm", "I look.", "{\"a\": 1}", "{}"}));
}

TEST(ResponsesApiWriter, ForcedCallsHaveNoMessage) {
  const ServedFolder folder;
  Json asked = asked_with_tools();
  asked["tool_choice"] = {{"type", "function"}, {"name", "g"}};
  const Exchange cut =
      exchange(folder.model, asked, {{bytes("<tool_call>\n{\"na"), FinishReason::kLength}});
  ASSERT_EQ(cut.body()["output"].size(), 1u);
  EXPECT_EQ(cut.body()["output"][0]["name"], "g");
  EXPECT_EQ(cut.body()["output"][0]["status"], "incomplete");
  EXPECT_EQ(cut.structured_output.kind, StructuredOutput::Kind::kToolCalls);
}

TEST(ResponsesApiWriter, CallsInANamespaceHaveBothNames) {
  const ServedFolder folder;
  Json asked = Json::parse(R"({"input": [
      {"type": "function_call", "call_id": "1", "name": "f", "namespace": "s", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "1", "output": "o"}],
    "tools": [{"type": "namespace", "name": "s", "description": "d", "tools": [{"type": "function", "name": "f"}]},
              {"type": "function", "name": "f"}], "tool_choice": {"type": "function", "name": "f", "namespace": "s"}})");
  const auto parsed = parse_responses_api_request(asked.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->chat.conversation.messages[0]["tool_calls"][0]["function"]["name"], "s.f");
  EXPECT_EQ(parsed->chat.conversation.tools[0]["function"]["name"], "s.f");
  const Json call =
      exchange(folder.model, asked,
               {says("<tool_call>\n{\"name\": \"s.f\", \"arguments\": {}}\n</tool_call>")})
          .body()["output"][0];
  EXPECT_EQ(call["name"], "f");
  EXPECT_EQ(call["namespace"], "s");
}

TEST(ResponsesApiWriter, HasLogprobs) {
  const ServedFolder folder;
  Json asked = {{"input", "Hi"}, {"top_logprobs", 2}};
  const Json whole = exchange(folder.model, asked, {says("ab")}).body();
  const Json logprobs = whole["output"][0]["content"][0]["logprobs"];
  ASSERT_EQ(logprobs.size(), 2u);
  EXPECT_EQ(logprobs[1]["token"], "b");
  EXPECT_EQ(logprobs[1]["top_logprobs"].size(), 2u);
  asked["stream"] = true;
  Json told = Json::array();
  for (const Json& event : exchange(folder.model, asked, {says("ab")}).sink->typed_events()) {
    if (event["type"] != "response.output_text.delta") continue;
    for (const Json& logprob : event["logprobs"]) told.push_back(logprob);
  }
  EXPECT_EQ(told, logprobs);
}

TEST(ResponsesApiWriter, EmptyAnswerIsAnEmptyMessage) {
  const ServedFolder folder;
  const Json body = exchange(folder.model, {{"input", "Hi"}}, {says("")}).body();
  ASSERT_EQ(body["output"].size(), 1u);
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesApiWriter, ErrorsHaveTheFormatOfTheApi) {
  const ServedFolder folder;
  ScriptedAnswer broken = says("a");
  broken.reason = FinishReason::kError;
  broken.message = "no memory";
  Json asked = {{"input", "Hi"}, {"stream", true}};
  const auto events = exchange(folder.model, asked, {broken}).sink->typed_events();
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["status"], "failed");
  EXPECT_EQ(events.back()["response"]["error"]["code"], "server_error");
  EXPECT_NE(events.back()["response"]["error"]["message"].get<std::string>().find("no memory"),
            std::string::npos);
  asked.erase("stream");
  const Exchange whole = exchange(folder.model, asked, {broken});
  EXPECT_EQ(whole.sink->status, 500);
  EXPECT_TRUE(whole.body().contains("error"));
}

}  // namespace
}  // namespace neuronmm::serve
