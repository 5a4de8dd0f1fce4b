// Tests the output formats that grammars are compiled from, and that the parsers of tool calls can
// read answers in these formats.

#include <gtest/gtest.h>

#include "serve/output/tool_call_parser.h"
#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

TEST(Shapes, FollowFromTheToolChoiceOrTheResponseFormat) {
  const ServedFolder folder;
  Json body = chat_body();
  body["tools"] = {tool("f"), tool("g")};
  EXPECT_EQ(exchange(folder.model, body, {says("")}).structured_output.kind,
            StructuredOutput::Kind::kText);
  body["tool_choice"] = "required";
  StructuredOutput output = exchange(folder.model, body, {says("")}).structured_output;
  EXPECT_EQ(output.kind, StructuredOutput::Kind::kToolCalls);
  EXPECT_EQ(output.param, "tool_choice");
  EXPECT_EQ(output.calls.before_name, "<tool_call>\n{\"name\": \"");
  EXPECT_EQ(output.calls.functions.size(), 2u);
  EXPECT_TRUE(output.calls.several);
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "g"}}}};
  output = exchange(folder.model, body, {says("")}).structured_output;
  ASSERT_EQ(output.calls.functions.size(), 1u);
  EXPECT_EQ(output.calls.functions[0].name, "g");
  EXPECT_FALSE(output.calls.several);
  body = chat_body();
  body["guided_json"] = R"({"type": "array"})";
  output = exchange(folder.model, body, {says("")}).structured_output;
  EXPECT_EQ(output.kind, StructuredOutput::Kind::kJsonSchema);
  EXPECT_EQ(output.schema.dump(), R"({"type":"array"})");
  EXPECT_EQ(output.param, "guided_json");
}

TEST(Shapes, CallsWithoutJsonBecomeJsonIfTheyMustObeySchemas) {
  ChatRequest request;
  request.tools.choice.kind = ToolChoice::Kind::kAuto;
  EXPECT_EQ(call_syntax(ToolSyntax::kXml, request), ToolSyntax::kXml);
  request.parameters.response_format.kind = ResponseFormat::Kind::kJsonObject;
  EXPECT_EQ(call_syntax(ToolSyntax::kXml, request), ToolSyntax::kHermes);
  request.parameters.response_format.kind = ResponseFormat::Kind::kText;
  request.tools.choice.kind = ToolChoice::Kind::kRequired;
  for (const ToolSyntax syntax :
       {ToolSyntax::kXml, ToolSyntax::kGlm, ToolSyntax::kLfm2, ToolSyntax::kPythonic,
        ToolSyntax::kGemma4, ToolSyntax::kDeepSeek4})
    EXPECT_EQ(call_syntax(syntax, request), ToolSyntax::kHermes);
  request.tools.choice.kind = ToolChoice::Kind::kNamed;
  EXPECT_EQ(call_syntax(ToolSyntax::kKimi, request), ToolSyntax::kKimi);
  EXPECT_EQ(call_syntax(ToolSyntax::kLlama, request), ToolSyntax::kLlama);
}

// A strict function is held to its schema although the model decides whether it is called.
TEST(Shapes, StrictFunctionsHoldFreeAnswers) {
  const ServedFolder folder;
  Json body = chat_body();
  body["tools"] = {tool("f"), tool("g")};
  body["tools"][1]["function"]["strict"] = true;
  const StructuredOutput output = exchange(folder.model, body, {says("")}).structured_output;
  EXPECT_EQ(output.kind, StructuredOutput::Kind::kStrictCalls);
  EXPECT_EQ(output.marker.text, "<tool_call>");
  EXPECT_EQ(output.calls.before_name, "\n{\"name\": \"");
  EXPECT_FALSE(output.calls.several);
  ASSERT_EQ(output.calls.functions.size(), 2u);
  EXPECT_FALSE(output.calls.functions[0].parameters.contains("properties"));
  EXPECT_TRUE(output.calls.functions[1].parameters.contains("properties"));
  body["tool_choice"] = "none";
  EXPECT_EQ(exchange(folder.model, body, {says("")}).structured_output.kind,
            StructuredOutput::Kind::kText);
}

// Agents send such requests if they may look something up before they answer.
TEST(Shapes, JsonFormatStillAllowsToolCalls) {
  const ServedFolder folder;
  Json body = chat_body();
  body["tools"] = {tool("f"), tool("g")};
  body["guided_json"] = R"({"type": "array"})";
  StructuredOutput output = exchange(folder.model, body, {says("")}).structured_output;
  EXPECT_EQ(output.kind, StructuredOutput::Kind::kJsonSchema);
  EXPECT_EQ(output.calls.functions.size(), 2u);
  EXPECT_EQ(output.calls.before_name, "<tool_call>\n{\"name\": \"");
  body["tool_choice"] = "none";
  EXPECT_TRUE(exchange(folder.model, body, {says("")}).structured_output.calls.functions.empty());
  body.erase("tool_choice");
  body.erase("guided_json");
  body["guided_regex"] = "a+";
  EXPECT_TRUE(exchange(folder.model, body, {says("")}).structured_output.calls.functions.empty());
}

// An answer in the format is read as the calls that it contains.
TEST(Shapes, AreReadByTheParsers) {
  const ToolList tools =
      std::make_shared<const std::vector<Tool>>(std::vector<Tool>{{.name = "f"}, {.name = "g"}});
  for (const ToolSyntax syntax : {ToolSyntax::kHermes, ToolSyntax::kLlama, ToolSyntax::kMistral,
                                  ToolSyntax::kMistralByName}) {
    const ToolCallFormat format = tool_call_format(syntax, {}, true);
    const auto call = [&](const std::string& name, const std::string& arguments) {
      return format.before_name + name + format.before_arguments + arguments +
             format.after_arguments;
    };
    const std::string text =
        format.begin + call("f", "{\"a\": 1}") + format.between + call("g", "{}") + format.end;
    const auto parser = make_tool_call_parser(syntax, tools);
    OutputDeltas deltas;
    parser->push(text, deltas);
    parser->finish(deltas);
    EXPECT_EQ(deltas.list(),
              (std::vector<OutputDelta>{{OutputDelta::Kind::kCall, "f", 0},
                                        {OutputDelta::Kind::kArguments, "{\"a\": 1}", 0},
                                        {OutputDelta::Kind::kCall, "g", 1},
                                        {OutputDelta::Kind::kArguments, "{}", 1}}))
        << text;
  }
}

}  // namespace
}  // namespace neuronmm::serve
