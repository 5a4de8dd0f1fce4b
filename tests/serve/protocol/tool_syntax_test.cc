// Tests the choice of the syntax of calls by the template, and calls that are not JSON: Python, and
// text between tags.

#include <random>

#include <gtest/gtest.h>

#include "serve/output/output_parser.h"

namespace neuronmm::serve {
namespace {

using Kind = OutputDelta::Kind;

ToolList tools_with_types() {
  const Json schema = Json::parse(R"({"properties": {"city": {"type": "string"},
      "days": {"type": "integer"}, "list": {"type": "array"}}})");
  return std::make_shared<const std::vector<Tool>>(
      std::vector<Tool>{{.name = "f", .parameters = schema}, {.name = "get_weather"}});
}

std::vector<OutputDelta> push_pieces(ToolSyntax syntax, const std::vector<std::string>& pieces) {
  const auto parser = make_tool_call_parser(syntax, tools_with_types());
  OutputDeltas deltas;
  for (const std::string& piece : pieces) parser->push(piece, deltas);
  parser->finish(deltas);
  return deltas.take();
}

// Returns the calls and the content in one line: "C:text|f{...}|".
std::string line_of(ToolSyntax syntax, const std::string& text) {
  std::string line;
  for (const OutputDelta& delta : push_pieces(syntax, {text})) {
    if (delta.kind == Kind::kContent) line += "C:" + delta.text + "|";
    if (delta.kind == Kind::kCall) line += delta.text;
    if (delta.kind == Kind::kArguments) line += delta.text + "|";
  }
  return line;
}

std::string pythonic(const std::string& text) { return line_of(ToolSyntax::kPythonic, text); }
std::string lfm2(const std::string& calls) {
  return line_of(ToolSyntax::kLfm2, "<|tool_call_start|>" + calls + "<|tool_call_end|>");
}

TEST(ToolSyntaxes, FollowFromTheTemplate) {
  const std::pair<const char*, ToolSyntax> sources[] = {
      {"{{ tools }}<|tool_call_start|>[", ToolSyntax::kLfm2},
      {"'List of tools: <|tool_list_start|>['{{ tools }}", ToolSyntax::kLfm2},
      {"'List of tools: ['{{ tools }}", ToolSyntax::kLfm2},
      {"{{ tools }}[func_name1(params_name1=params_value1, ...)]", ToolSyntax::kPythonic},
      {"<|header_start|>{{ tools }}[func_name1(param1=value1)]", ToolSyntax::kPythonic},
      {"<|header_start|>{{ tools }}{\"name\": , \"parameters\": }", ToolSyntax::kLlama},
      {"<|start_header_id|>{{ tools }}{\"name\": , \"parameters\": }", ToolSyntax::kLlama},
      {"<start_of_turn>{{ tools }}```tool_code", ToolSyntax::kPythonic},
      {"{{ tools }}<function_calls>f()</function_calls>", ToolSyntax::kOlmo3},
      {"{{ tools }}<start_function_call>call:", ToolSyntax::kFunctionGemma},
      {"{{ tools }}'<|tool_call>call:'", ToolSyntax::kGemma4},
      {"{{ tools }}<tool_call>{name}<arg_key>k</arg_key>", ToolSyntax::kGlm},
      {"{{ tools }}<seed:tool_call><function=f><parameter=a>", ToolSyntax::kSeedOss},
      {"{{ tools }}<minimax:tool_call><invoke name=\"f\">", ToolSyntax::kMiniMax},
      {"{{ tools }}'｜DSML｜' 'function_calls>'", ToolSyntax::kDeepSeek32},
      {"{{ tools }}'｜DSML｜' 'tool_calls>'", ToolSyntax::kDeepSeek4},
      {"{{ tools }}<atem:function_calls>", ToolSyntax::kMuse},
      {"{{ tools }}<function name=\"f\"><param name=\"a\">", ToolSyntax::kMiniCpm},
      {"{{ tools }}<|tool_call_begin|>f<|tool_call_argument_begin|>", ToolSyntax::kKimi},
      {"{{ tools }}]<]minimax[>[<tool_call>", ToolSyntax::kDescribed},
      {"{{ tools }}<tool_call><function=f><parameter=a>", ToolSyntax::kXml},
      {"{{ tools }}<tool_call>{\"name\": }", ToolSyntax::kHermes},
      {"{{ tools }}<|tool_call|>[", ToolSyntax::kGranite},
      {"{{ tools }}<|tools_prefix|>[", ToolSyntax::kApertus},
      {"<|tool_call_start|>", ToolSyntax::kDescribed},
  };
  for (const auto& [source, syntax] : sources)
    EXPECT_EQ(template_traits(source).tools, syntax) << source;
}

TEST(PythonCalls, MayStandAloneInAnAnswer) {
  EXPECT_EQ(pythonic("[f(city=\"Rome\", days=2), get_weather()]"),
            "f{\"city\": \"Rome\", \"days\": 2}|get_weather{}|");
  EXPECT_EQ(pythonic("\n[ f( city = 'Rome' , ) ]\n"), "f{\"city\": \"Rome\"}|");
  EXPECT_EQ(pythonic("f(city='Rome')\nf(days=1)"), "f{\"city\": \"Rome\"}|f{\"days\": 1}|");
  EXPECT_EQ(pythonic("<|python_start|>[f(days=1)]<|python_end|>"), "f{\"days\": 1}|");
  EXPECT_EQ(pythonic("[f(days=1)] I hope this helps."), "f{\"days\": 1}|C: I hope this helps.|");
  EXPECT_EQ(line_of(ToolSyntax::kLlama, "[f(city=\"Rome\"), f(days=1)]"),
            "f{\"city\": \"Rome\"}|f{\"days\": 1}|");
  EXPECT_EQ(line_of(ToolSyntax::kLlama, "<|python_tag|>[f(days=1)]"), "f{\"days\": 1}|");
}

TEST(PythonCalls, MayStandInBlocksOfGemma) {
  EXPECT_EQ(pythonic("Sure.\n```tool_code\nprint(f(city=\"Rome\"))\n```\nDone."),
            "C:Sure.|f{\"city\": \"Rome\"}|C:\nDone.|");
  EXPECT_EQ(pythonic("```tool_code\nprint(default_api.f(days=3))\nget_weather()\n```"),
            "f{\"days\": 3}|get_weather{}|");
  EXPECT_EQ(pythonic("```tool_code\n[f(\"Rome\", 3)]\n```"), "f{\"city\": \"Rome\", \"days\": 3}|");
}

TEST(PythonCalls, MayStandBetweenMarks) {
  EXPECT_EQ(line_of(ToolSyntax::kLfm2,
                    "I look.\n<|tool_call_start|>[f(days=2), g(a=[])]"
                    "<|tool_call_end|>So."),
            "C:I look.|f{\"days\": 2}|g{\"a\": []}|C:So.|");
  EXPECT_EQ(line_of(ToolSyntax::kOlmo3,
                    "<function_calls>\nf(city='Rome', days=null)\ng()\n"
                    "</function_calls>"),
            "f{\"city\": \"Rome\", \"days\": null}|g{}|");
}

TEST(PythonCalls, HaveValuesAsModelsWriteThem) {
  const std::pair<const char*, const char*> values[] = {
      {"'it's here'", "\"it's here\""},
      {"\"a \"b\" c\"", "\"a \\\"b\\\" c\""},
      {"'say \"hi\"'", "\"say \\\"hi\\\"\""},
      {"'a\\'b\\n'", "\"a'b\\n\""},
      {"'''a'b\n'''", "\"a'b\\n\""},
      {"r'\\d'", "\"\\\\d\""},
      {"''", "\"\""},
      {"'a' \"b\"", "\"ab\""},
      {"'\\ud83d\\ude00 \\ud83d'", "\"😀 \\ufffd\""},
      {"San Francisco, ", "\"San Francisco\""},
      {"2024-01-02", "\"2024-01-02\""},
      {"007", "\"007\""},
      {"-1_000", "-1000"},
      {".5", "0.5"},
      {"0xff", "255"},
      {"1e5", "1e5"},
      {"True", "true"},
      {"{'a': [1, (2, 3), (4)], 5: None,}", "{\"a\": [1, [2, 3], 4], \"5\": null}"},
      {"{\"a\": true, b: {}}", "{\"a\": true, \"b\": {}}"},
      {"()", "[]"},
      {"((1,),)", "[[1]]"},
  };
  for (const auto& [python, json] : values)
    EXPECT_EQ(lfm2(std::string("[f(x=") + python + ")]"), std::string("f{\"x\": ") + json + "}|");
}

TEST(PythonCalls, OtherTextIsContent) {
  for (const std::string text :
       {"[1, 2]", "[f]", "[unknown(a=1)]", "f is a function", "f(x) is a function", "", "[", " ",
        "[f(", "unknown(a=1)", "See [f(a=1)].", "```python\nf(a=1)\n```", "你好，世界",
        "[f](http://x)", "print(\"hello\")", "Get_weather()", "get_weather() returns it"})
    EXPECT_EQ(pythonic(text), text.empty() ? "" : "C:" + text + "|");
  const std::string mark = "<|tool_call_start|>";
  for (const char* text : {"", "[", "[f", "[1]", "hello"})
    EXPECT_EQ(line_of(ToolSyntax::kLfm2, mark + text), "C:" + mark + text + "|");
  // After the arguments have begun, the call ends where it becomes invalid.
  EXPECT_EQ(line_of(ToolSyntax::kLfm2, mark + "[f(a=g(1))]"), "f{\"a\": |C:(1))]|");
  EXPECT_EQ(line_of(ToolSyntax::kLfm2, mark + "[f(a='x"), "f{\"a\": \"x|");
}

// Arguments are passed on as they come, and prose at once.
TEST(PythonCalls, AreToldAsTheyCome) {
  const auto parser = make_tool_call_parser(ToolSyntax::kPythonic, tools_with_types());
  const auto push = [&](const std::string& text) {
    OutputDeltas deltas;
    parser->push(text, deltas);
    return deltas.take();
  };
  EXPECT_TRUE(push("[f(ci").empty());
  EXPECT_EQ(push("ty='Ro"), (std::vector<OutputDelta>{{Kind::kCall, "f", 0},
                                                      {Kind::kArguments, "{\"city\": \"Ro", 0}}));
  EXPECT_EQ(push("me"), (std::vector<OutputDelta>{{Kind::kArguments, "me", 0}}));
  const auto prose = make_tool_call_parser(ToolSyntax::kPythonic, tools_with_types());
  OutputDeltas deltas;
  prose->push("The", deltas);
  EXPECT_EQ(deltas.take(), (std::vector<OutputDelta>{{Kind::kContent, "The", 0}}));
}

// Nested literals take bounded memory, and time that grows with their length alone.
TEST(PythonCalls, DeepNestingEndsTheCall) {
  const std::string deep(100'000, '(');
  EXPECT_EQ(lfm2("[f(a=" + deep).substr(0, 8), "f{\"a\": |");
  EXPECT_EQ(lfm2("[f(a=" + std::string(100'000, ' ') + "1)]"), "f{\"a\": 1}|");
  EXPECT_EQ(lfm2("[f(a=1)" + std::string(100'000, ' ') + "]"), "f{\"a\": 1}|");
  EXPECT_EQ(lfm2("[f(a=1" + std::string(100'000, '1') + ")]").substr(0, 8), "f{\"a\": |");
}

TEST(TaggedCalls, OfEachFamilyAreRead) {
  const std::pair<ToolSyntax, const char*> texts[] = {
      {ToolSyntax::kMiniMax,
       "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"city\">Rome</parameter>\n"
       "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
       "</minimax:tool_call>"},
      {ToolSyntax::kGlm,
       "<tool_call>f<arg_key>city</arg_key><arg_value>Rome</arg_value><arg_key>days</arg_key>"
       "<arg_value>2</arg_value></tool_call><tool_call>g</tool_call>"},
      {ToolSyntax::kGlm,
       "<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n<arg_key>days</arg_key>"
       "\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>"},
      {ToolSyntax::kDeepSeek4,
       "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"city\" "
       "string=\"true\">Rome</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
       "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"g\">\n"
       "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"},
      {ToolSyntax::kMiniCpm,
       "<function name=\"f\"><param name=\"city\"><![CDATA[Rome]]></param><param name=\"days\">2"
       "</param></function><function name=\"g\"></function>"},
      {ToolSyntax::kSeedOss,
       "<seed:tool_call>\n<function=f>\n<parameter=city>Rome</parameter>\n<parameter=days>2"
       "</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call><function=g></function>"
       "</seed:tool_call>"},
      {ToolSyntax::kGemma4,
       "<|tool_call>call:f{city:<|\"|>Rome<|\"|>,days:2}<tool_call|><|tool_call>call:g{}"
       "<tool_call|>"},
      {ToolSyntax::kFunctionGemma,
       "<start_function_call>call:f{city:<escape>Rome<escape>,days:2}<end_function_call>"
       "<start_function_call>call:g{}<end_function_call>"},
  };
  for (const auto& [syntax, text] : texts) {
    const std::string calls = "f{\"city\": \"Rome\", \"days\": 2}|g{}|";
    EXPECT_EQ(line_of(syntax, text), calls) << text;
    EXPECT_EQ(line_of(syntax, "Hm.\n" + std::string(text) + "\nBye."),
              "C:Hm.|" + calls + "C:\nBye.|")
        << text;
  }
}

TEST(TaggedCalls, MalformedCallsBecomeContent) {
  for (const std::string text :
       {"<tool_call>", "<tool_call>no name<b>", "<tool_call>{\"name\": 1}"})
    EXPECT_EQ(line_of(ToolSyntax::kGlm, text), "C:" + text + "|");
  EXPECT_EQ(line_of(ToolSyntax::kGlm, "<tool_call>f\n<arg_key>a</arg_key>oops"),
            "f{\"a\": null}|C:oops|");
  EXPECT_EQ(line_of(ToolSyntax::kMiniMax, "<invoke name=\"unheard\">"),
            "C:<invoke name=\"unheard\">|");
}

}  // namespace
}  // namespace neuronmm::serve
