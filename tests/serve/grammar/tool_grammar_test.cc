#include "serve/grammar/tool_grammar.h"

#include "compiled.h"

namespace neuronmm::grammar {
namespace {

const Json kWeather = Json::parse(
    R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false})");
const std::vector<Tool> kTools = {{"weather", &kWeather, "tools[0]"},
                                  {"now\"", nullptr, "tools[1]"}};

TEST(ToolGrammar, HermesCalls) {
  Compiled calls(compile_tool_calls(hermes_tool_calls(), kTools, 2).value());
  const std::string weather =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
  const std::string now = "<tool_call>\n{\"name\": \"now\\\"\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(calls.accepts(weather));
  EXPECT_TRUE(calls.accepts(now));
  EXPECT_TRUE(calls.accepts(weather + "\n" + now));
  EXPECT_FALSE(calls.accepts(weather + "\n" + now + "\n" + now));
  EXPECT_FALSE(calls.accepts(""));
  EXPECT_FALSE(
      calls.accepts("<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(
      calls.accepts("<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>"));
}

TEST(ToolGrammar, OtherFamilies) {
  Compiled llama(compile_tool_calls(llama3_tool_calls(), {kTools[0]}, 1).value());
  EXPECT_TRUE(llama.accepts(R"({"name": "weather", "parameters": {"city": ""}})"));
  EXPECT_FALSE(llama.accepts(R"({"name": "weather", "parameters": {"city": 1}})"));
  Compiled mistral(compile_tool_calls(mistral_tool_calls(), kTools, 3).value());
  EXPECT_TRUE(mistral.accepts(
      R"([TOOL_CALLS][{"name": "weather", "arguments": {"city": "x"}}, {"name": "now\"", "arguments": {"a": 1}}])"));
}

TEST(ToolGrammar, ErrorsNameTheTool) {
  const Json bad = Json::parse(R"({"properties": {"x": {"not": {"multipleOf": 3}}}})");
  const Json impossible = false;
  const auto refused =
      compile_tool_calls(llama3_tool_calls(), {kTools[0], {"b", &bad, "tools[1]"}}, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "tools[1]: /properties/x/not: multipleOf is not negated");
  const auto none =
      compile_tool_calls(llama3_tool_calls(), {kTools[0], {"b", &impossible, "tools[1]"}}, 1);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, testing::HasSubstr("tools[1]: "));
  EXPECT_FALSE(compile_tool_calls(llama3_tool_calls(), {}, 1).ok());
}

}  // namespace
}  // namespace neuronmm::grammar
