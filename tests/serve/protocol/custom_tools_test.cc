// Tests custom tools, whose input is a text: the models see functions, and the clients see texts.

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

Json custom_chat(const Json& format = nullptr) {
  Json body = chat_body();
  body["tools"] = {tool("f"),
                   {{"type", "custom"},
                    {"custom", {{"name", "shell"}, {"description", "d"}, {"format", format}}}}};
  return body;
}

Json custom_response(const Json& format = nullptr) {
  return {{"input", "Hi"},
          {"tools", Json::array({{{"type", "custom"}, {"name", "shell"}, {"format", format}}})}};
}

const char* const kShellCall =
    "<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"input\": \"ls \\\"a\\\"\\n\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";

TEST(CustomTools, AreFunctionsForTheTemplate) {
  const ServedFolder folder;
  const auto prompt = apply_template_response(folder.model, custom_chat().dump());
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  const Json shown = Json::parse(*prompt)["prompt"];
  EXPECT_NE(shown.get<std::string>().find(R"("name": "shell", "description": "d", "parameters")"),
            std::string::npos)
      << shown;
}

TEST(CustomTools, CallsOfChatsHaveTexts) {
  const ServedFolder folder;
  Json body = custom_chat();
  const Json message =
      exchange(folder.model, body, {says(kShellCall)}).body()["choices"][0]["message"];
  const Json& calls = message["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["type"], "custom");
  EXPECT_EQ(calls[0]["custom"], (Json{{"name", "shell"}, {"input", "ls \"a\"\n"}}));
  EXPECT_EQ(calls[1]["type"], "function");
  EXPECT_EQ(calls[1]["function"]["arguments"], "{}");
  // The answer is accepted as part of the next request.
  body["messages"].push_back(message);
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", calls[0]["id"]}, {"content", "a"}});
  EXPECT_FALSE(exchange(folder.model, body, {says("Done.")}).error);
}

TEST(CustomTools, CallsOfStreamsHaveTexts) {
  const ServedFolder folder;
  Json body = custom_chat();
  body["stream"] = true;
  std::string input, arguments;
  for (const Json& chunk : exchange(folder.model, body, {says(kShellCall)}).sink->chunks()) {
    const Json& delta = chunk["choices"][0]["delta"];
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      if (call.contains("id")) {
        EXPECT_EQ(call["type"], call["index"] == 0 ? "custom" : "function");
      }
      if (call.contains("custom")) input += call["custom"].value("input", "");
      if (call.contains("function")) arguments += call["function"].value("arguments", "");
    }
  }
  EXPECT_EQ(input, "ls \"a\"\n");
  EXPECT_EQ(arguments, "{}");
}

TEST(CustomTools, CallsOfResponsesAreItems) {
  const ServedFolder folder;
  Json body = custom_response();
  const Json item = exchange(folder.model, body, {says(kShellCall)}).body()["output"][0];
  EXPECT_EQ(item["type"], "custom_tool_call");
  EXPECT_EQ(item["input"], "ls \"a\"\n");
  body["input"] = Json::array(
      {{{"role", "user"}, {"content", "Hi"}},
       item,
       {{"type", "custom_tool_call_output"}, {"call_id", item["call_id"]}, {"output", "a"}}});
  EXPECT_FALSE(exchange(folder.model, body, {says("Done.")}).error);
  body["stream"] = true;
  std::string input;
  for (const Json& event : exchange(folder.model, body, {says(kShellCall)}).sink->typed_events()) {
    if (event["type"] == "response.custom_tool_call_input.delta")
      input += event["delta"].get<std::string>();
  }
  EXPECT_EQ(input, "ls \"a\"\n");
}

// Returns the input of a call whose arguments are `written`.
std::string input_of_call(const std::string& written) {
  const ServedFolder folder;
  ScriptedAnswer answer = says("<tool_call>\n{\"name\": \"shell\", \"arguments\": " + written);
  answer.reason = FinishReason::kLength;
  return exchange(folder.model, custom_chat(), {answer})
      .body()["choices"][0]["message"]["tool_calls"][0]["custom"]["input"];
}

TEST(CustomTools, InputsThatAreCutOffAreKept) {
  EXPECT_EQ(input_of_call("{\"input\": \"ls"), "ls");
  EXPECT_EQ(input_of_call("{\"input\": \"ls\""), "ls");
  EXPECT_EQ(input_of_call("{\"command\": \"ls\"}"), "{\"command\": \"ls\"}");
}

TEST(CustomTools, ExpressionsAreEnforced) {
  const ServedFolder folder;
  const Json nested = {{"type", "grammar"},
                       {"grammar", {{"syntax", "regex"}, {"definition", "[a-z]+|1"}}}};
  const Json flat = {{"type", "grammar"}, {"syntax", "regex"}, {"definition", "[a-z]+|1"}};
  for (const Json& body : {custom_chat(nested), custom_response(flat)}) {
    const StructuredOutput output = exchange(folder.model, body, {says("")}).structured_output;
    EXPECT_EQ(output.kind, StructuredOutput::Kind::kStrictCalls);
    EXPECT_EQ(output.calls.functions.back().parameters["properties"]["input"]["pattern"],
              "^(?:[a-z]+|1)$");
  }
}

TEST(CustomTools, OtherGrammarsAreRefusedByName) {
  const ServedFolder folder;
  const Json lark = {{"type", "grammar"},
                     {"grammar", {{"syntax", "lark"}, {"definition", "start: \"a\""}}}};
  const auto error = exchange(folder.model, custom_chat(lark), {}).error;
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "tools[1].custom.format.grammar.syntax");
  EXPECT_NE(error->message.find("lark"), std::string::npos) << error->message;
}

TEST(CustomTools, CanBeForced) {
  const ServedFolder folder;
  Json body = custom_chat();
  body["tool_choice"] = {{"type", "custom"}, {"custom", {{"name", "shell"}}}};
  EXPECT_EQ(
      exchange(folder.model, body, {says(kShellCall)}).structured_output.calls.functions.size(),
      1u);
  Json response = custom_response();
  response["tool_choice"] = {{"type", "custom"}, {"name", "shell"}};
  EXPECT_FALSE(exchange(folder.model, response, {says(kShellCall)}).error);
}

}  // namespace
}  // namespace neuronmm::serve
