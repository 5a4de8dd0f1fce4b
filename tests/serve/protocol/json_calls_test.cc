// Tests calls that are JSON: with the marks of each family, and without a mark as small models
// write them.

#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "places.h"
#include "serve/output/output_parser.h"
#include "serve/protocol/structured_output.h"

namespace neuronmm::serve {
namespace {

using Kind = OutputDelta::Kind;

ToolList two_tools() {
  return std::make_shared<const std::vector<Tool>>(
      std::vector<Tool>{{.name = "get_weather"}, {.name = "f"}});
}

std::vector<OutputDelta> call_deltas(ToolSyntax syntax, const std::vector<std::string>& pieces) {
  const auto parser = make_tool_call_parser(syntax, two_tools());
  OutputDeltas deltas;
  for (const std::string& piece : pieces) parser->push(piece, deltas);
  parser->finish(deltas);
  return deltas.take();
}

// Returns the calls and the content in one line: "C:text|f{...}|".
std::string call_line(const std::string& text, ToolSyntax syntax = ToolSyntax::kHermes) {
  std::string line;
  for (const OutputDelta& delta : call_deltas(syntax, {text})) {
    if (delta.kind == Kind::kContent) line += "C:" + delta.text + "|";
    if (delta.kind == Kind::kCall) line += delta.text;
    if (delta.kind == Kind::kArguments) line += delta.text + "|";
  }
  return line;
}

TEST(UnmarkedCalls, MayStandInBlocks) {
  EXPECT_EQ(call_line("```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```"),
            "f{\"a\": 1}|");
  EXPECT_EQ(
      call_line("Sure:\n\n```\n{\n  \"name\": \"f\",\n  \"arguments\": {\n    \"a\": 1\n  }\n}\n"
                "```\n\nI hope this helps."),
      "C:Sure:|f{\n    \"a\": 1\n  }|C:\n\nI hope this helps.|");
  EXPECT_EQ(call_line("```json\n[{\"name\": \"f\", \"arguments\": {}},\n"
                      "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}]\n```"),
            "f{}|get_weather{\"city\": \"Rome\"}|");
  EXPECT_EQ(
      call_line("```json\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"f\", "
                "\"arguments\": {}}\n```\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```"),
      "f{}|f{}|f{}|");
  EXPECT_EQ(call_line("```json\n{\"name\": \"f\", \"arguments\": {}}"), "f{}|");
}

TEST(UnmarkedCalls, MayStandAloneOnLines) {
  EXPECT_EQ(call_line("{\"name\": \"f\", \"arguments\": {}}"), "f{}|");
  EXPECT_EQ(
      call_line("\n {\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"f\", \"arguments\": {}}\n"),
      "f{}|f{}|");
  EXPECT_EQ(
      call_line("[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {}}]"),
      "f{}|f{}|");
  EXPECT_EQ(call_line("{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {}}; "
                      "{\"name\": \"f\", \"arguments\": {}}"),
            "f{}|f{}|f{}|");
  EXPECT_EQ(call_line("Well.\n{\"arguments\": {\"a\": []}, \"name\": \"f\"}\nDone."),
            "C:Well.|f{\"a\": []}|C:\nDone.|");
}

TEST(UnmarkedCalls, MayHaveTheFormOfApis) {
  EXPECT_EQ(
      call_line("{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}"),
      "f{}|");
  EXPECT_EQ(call_line("{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
                      "\"arguments\": \"{\\\"a\\\": 1}\"}}"),
            "f{\"a\": 1}|");
  EXPECT_EQ(call_line("{\"function\": \"f\", \"arguments\": {}}"), "f{}|");
  EXPECT_EQ(call_line("{\"name\": \"f\", \"parameters\": {\"a\": 1}}"), "f{\"a\": 1}|");
}

TEST(UnmarkedCalls, OtherJsonIsContent) {
  for (const std::string text :
       {"{\"name\": \"Ann\", \"age\": 3}", "{\"name\": \"f\", \"age\": 3}", "{\"name\": \"f\"}",
        "[{\"name\": \"f\"}, {\"name\": \"get_weather\"}]",
        "{\"a\": {\"name\": \"f\", "
        "\"arguments\": {}}}",
        "[1, 2]", "[link](http://x)", "[ ] task", "{not json}", "{", "[",
        "{\"name\": \"g\", \"arguments\": {}}", "```json\n{\"name\": \"Ann\"}\n```\nDone.",
        // A list of people, one of whom is called as a function is.
        "[\n  {\"name\": \"Ann\"},\n  {\"name\": \"f\", \"arguments\": {}}\n]",
        "```json\n[\n  5,\n  {\"name\": \"f\", \"arguments\": {}}\n]\n```",
        // The definition of a function.
        "{\"name\": \"f\", \"description\": \"d\", \"parameters\": {}}",
        "{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}",
        // Code and prose.
        "```python\n{\"name\": \"f\", \"arguments\": {}}\n```", "```js\nx = 1\n```\nand",
        "Write {\"name\": \"f\", \"arguments\": {}} to call it.",
        "`{\"name\": \"f\", \"arguments\": {}}`", "```\nplain\n```", "``", "a\n```json\n",
        "```json\n{\"name\": \"f\""}) {
    EXPECT_EQ(call_line(text), "C:" + text + "|");
  }
}

TEST(UnmarkedCalls, FollowOtherJsonAndCode) {
  EXPECT_EQ(call_line("{\"a\": 1}\n{\"name\": \"f\", \"arguments\": {}}"), "C:{\"a\": 1}|f{}|");
  EXPECT_EQ(call_line("```python\nx = {}\n```\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```"),
            "C:```python\nx = {}\n```|f{}|");
  EXPECT_EQ(
      call_line("```json\n{\"a\": 1}\n```\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n"
                "</tool_call>"),
      "C:```json\n{\"a\": 1}\n```|f{}|");
}

TEST(UnmarkedCalls, AreToldAsTheyCome) {
  const auto parser = make_tool_call_parser(ToolSyntax::kHermes, two_tools());
  const auto push = [&](const std::string& text) {
    OutputDeltas deltas;
    parser->push(text, deltas);
    return deltas.take();
  };
  EXPECT_EQ(push("Hi.\n``"), (std::vector<OutputDelta>{{Kind::kContent, "Hi.", 0}}));
  EXPECT_TRUE(push("`json\n{\"name\": \"f\", \"argu").empty());
  EXPECT_EQ(
      push("ments\": {\"a\": \"x"),
      (std::vector<OutputDelta>{{Kind::kCall, "f", 0}, {Kind::kArguments, "{\"a\": \"x", 0}}));
  EXPECT_EQ(push("y"), (std::vector<OutputDelta>{{Kind::kArguments, "y", 0}}));
}

TEST(UnmarkedCalls, OtherJsonIsNotDelayed) {
  const auto parser = make_tool_call_parser(ToolSyntax::kHermes, two_tools());
  OutputDeltas deltas;
  parser->push("{\"answer\": \"long", deltas);
  EXPECT_EQ(deltas.take(), (std::vector<OutputDelta>{{Kind::kContent, "{\"answer\": \"long", 0}}));
}

// Answers of Qwen2.5-Coder-0.5B at temperatures 0 and 0.7. Its template demands marks, and it
// writes none.
TEST(UnmarkedCalls, OfQwenCoderAreRead) {
  std::ifstream file(source_dir() / "tests/serve/protocol/qwen_coder_answers.json");
  const Json cases = Json::parse(file);
  EXPECT_GT(cases.size(), 10u);
  for (const Json& recorded : cases) {
    const auto answer = recorded["answer"].get<std::string>();
    std::vector<Tool> offered;
    for (const Json& name : recorded["tools"]) offered.push_back({.name = name});
    const auto parser = make_tool_call_parser(
        ToolSyntax::kHermes, std::make_shared<const std::vector<Tool>>(std::move(offered)));
    OutputDeltas deltas;
    parser->push(answer, deltas);
    parser->finish(deltas);
    std::string content;
    Json calls = Json::array();
    for (const OutputDelta& delta : deltas.list()) {
      if (delta.kind == Kind::kContent) content += delta.text;
      if (delta.kind == Kind::kCall) calls.push_back({{"name", delta.text}});
      if (delta.kind == Kind::kArguments)
        calls.back()["arguments"] = Json::parse(delta.text, nullptr, false);
    }
    EXPECT_EQ(content, recorded["content"]) << answer;
    EXPECT_EQ(calls, recorded["calls"]) << answer;
  }
}

constexpr ToolSyntax kMarked[] = {
    ToolSyntax::kHermes,   ToolSyntax::kGranite, ToolSyntax::kPhi4,    ToolSyntax::kFunctools,
    ToolSyntax::kNemotron, ToolSyntax::kHunyuan, ToolSyntax::kCommand, ToolSyntax::kApertus};

// The forced form of each syntax is read as the calls that it contains.
TEST(MarkedCalls, OfEachFamilyAreRead) {
  for (const ToolSyntax syntax : kMarked) {
    const ToolCallFormat format = tool_call_format(syntax, {}, true);
    const std::string text = format.begin + format.before_name + "f" + format.before_arguments +
                             "{\"a\": 1}" + format.after_arguments + format.between +
                             format.before_name + "other" + format.before_arguments + "{}" +
                             format.after_arguments + format.end;
    EXPECT_EQ(call_line(text, syntax), "f{\"a\": 1}|other{}|") << text;
    EXPECT_EQ(call_line("Hm. " + text + "\nBye.", syntax), "C:Hm.|f{\"a\": 1}|other{}|C:\nBye.|");
    EXPECT_EQ(call_line(text.substr(0, text.find("\"f")), syntax),
              "C:" + text.substr(0, text.find("\"f")) + "|");
  }
}

// The name stands before the arguments.
TEST(NamedCalls, OfEachFamilyAreRead) {
  for (const ToolSyntax syntax : {ToolSyntax::kFunctionary, ToolSyntax::kDeepSeek,
                                  ToolSyntax::kDeepSeek31, ToolSyntax::kKimi}) {
    const ToolCallFormat format = tool_call_format(syntax, {}, true);
    const auto call = [&](const std::string& name, const std::string& arguments) {
      return format.before_name + name + format.before_arguments + arguments +
             format.after_arguments;
    };
    const std::string text = format.begin + call("f", "{\"a\": \"}\"}") + format.between +
                             call("other", "{}") + format.end;
    EXPECT_EQ(call_line(text, syntax), "f{\"a\": \"}\"}|other{}|") << text;
    EXPECT_EQ(call_line("Hm. " + text + "\nBye.", syntax),
              "C:Hm.|f{\"a\": \"}\"}|other{}|C:\nBye.|");
    EXPECT_EQ(call_line(format.begin + format.before_name + "two words\n\"", syntax),
              "C:" + format.begin + format.before_name + "two words\n\"|");
    EXPECT_TRUE((format.begin + format.before_name).starts_with(call_marker(syntax).text));
  }
  EXPECT_EQ(call_line("<function=f>{\"a\": oops}</function>", ToolSyntax::kFunctionary),
            "f{\"a\": |C:oops}</function>|");
  EXPECT_EQ(call_line("<function=f>{}", ToolSyntax::kFunctionary), "f{}|");
  EXPECT_EQ(call_line("<function=f>{} and", ToolSyntax::kFunctionary), "f{}|C: and|");
}

// MiniMax M1 writes one call per line between its marks, and other models do so by mistake.
TEST(MarkedCalls, MayShareTheirMarks) {
  const std::string calls =
      "\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"other\", \"arguments\": {}}\n";
  EXPECT_EQ(call_line("<tool_calls>" + calls + "</tool_calls>So.", ToolSyntax::kHunyuan),
            "f{}|other{}|C:So.|");
  EXPECT_EQ(call_line("<tool_call>" + calls + "</tool_call>So."), "f{}|other{}|C:So.|");
}

// A constraint that begins after the marker forces the same text.
TEST(MarkedCalls, BeginWithTheirMarker) {
  for (const ToolSyntax syntax : kMarked) {
    const ToolCallFormat format = tool_call_format(syntax, {}, true);
    EXPECT_TRUE((format.begin + format.before_name).starts_with(call_marker(syntax).text));
  }
}

TEST(JsonCalls, DoNotDependOnHowTextIsCut) {
  const std::vector<std::string> parts = {"{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}",
                                          "```json\n",
                                          "```",
                                          "\n",
                                          " ",
                                          "[",
                                          "]",
                                          ", ",
                                          "{",
                                          "}",
                                          "<tool_call>",
                                          "</tool_call>",
                                          "text",
                                          "\"",
                                          "{\"name\": \"g\"}",
                                          "```py\n",
                                          ";"};
  std::mt19937 random(11);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (size_t count = random() % 14; count > 0; --count) text += parts[random() % parts.size()];
    std::vector<std::string> bytes;
    for (const char c : text) bytes.emplace_back(1, c);
    EXPECT_EQ(call_deltas(ToolSyntax::kHermes, {text}), call_deltas(ToolSyntax::kHermes, bytes))
        << text;
  }
}

}  // namespace
}  // namespace neuronmm::serve
