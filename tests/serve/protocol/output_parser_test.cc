// Tests how thoughts and tool calls are found in texts that models of each family write.

#include "serve/output/output_parser.h"

#include <random>

#include <gtest/gtest.h>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

using Kind = OutputDelta::Kind;

ToolList tools() {
  const Json parameters = Json::parse(R"({"properties": {"n": {"type": "integer"},
      "text": {"type": "string"}, "list": {"type": "array"}, "on": {"type": "boolean"},
      "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
      "unit": {"enum": ["C", "F"]}, "any": {"type": ["integer", "string"]}}})");
  return std::make_shared<const std::vector<Tool>>(
      std::vector<Tool>{{.name = "f", .parameters = parameters}, {.name = "get_weather"}});
}

// Returns the deltas with consecutive ones of one kind merged.
std::vector<OutputDelta> joined(const std::vector<OutputDelta>& deltas) {
  std::vector<OutputDelta> list;
  for (const OutputDelta& delta : deltas) {
    const bool goes_on = !list.empty() && list.back().kind == delta.kind &&
                         list.back().call == delta.call && delta.kind != Kind::kCall;
    if (goes_on)
      list.back().text += delta.text;
    else
      list.push_back(delta);
  }
  return list;
}

struct Setting {
  ToolSyntax syntax = ToolSyntax::kNone;
  Thinking thinking = Thinking::kNone;
  bool parallel = true;
};

std::vector<OutputDelta> parse(const Setting& setting, const std::vector<std::string>& pieces) {
  OutputParser parser(setting.thinking, make_tool_call_parser(setting.syntax, tools()),
                      setting.parallel);
  std::vector<OutputDelta> all;
  const auto add = [&](std::vector<OutputDelta> deltas) {
    all.insert(all.end(), deltas.begin(), deltas.end());
  };
  for (const std::string& piece : pieces) add(parser.push(piece));
  add(parser.finish());
  return joined(all);
}

// Returns one line that describes the parsed answer: "T:thought|C:content|0.f|0:{...}|". A call has
// its number and name, and then its number and arguments.
std::string parsed(const Setting& setting, const std::string& text) {
  std::string line;
  for (const OutputDelta& delta : parse(setting, {text})) {
    if (delta.kind == Kind::kReasoning) line += "T:" + delta.text + "|";
    if (delta.kind == Kind::kContent) line += "C:" + delta.text + "|";
    if (delta.kind == Kind::kCall) line += fmt::format("{}.{}|", delta.call, delta.text);
    if (delta.kind == Kind::kArguments) line += fmt::format("{}:{}|", delta.call, delta.text);
  }
  return line;
}

constexpr Setting kHermes{ToolSyntax::kHermes}, kLlama{ToolSyntax::kLlama},
    kMistral{ToolSyntax::kMistral};

TEST(HermesCalls, AreRecognized) {
  EXPECT_EQ(
      parsed(kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"),
      "0.f|0:{\"a\": 1}|");
  EXPECT_EQ(parsed(kHermes,
                   "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
                   "<tool_call>\n{\"name\": \"made_up\", \"arguments\": {\"b\": [\"}\", {}]}}\n"
                   "</tool_call>\n"),
            "C:Let me see.|0.f|0:{}|1.made_up|1:{\"b\": [\"}\", {}]}|");
  // The keys stand in another order or with other keys; arguments or the end are missing.
  EXPECT_EQ(parsed(kHermes,
                   "<tool_call>{\"arguments\": {\"a\": {\"b\": 2}}, \"id\": 12, \"name\": "
                   "\"f\"}</tool_call>"),
            "0.f|0:{\"a\": {\"b\": 2}}|");
  EXPECT_EQ(parsed(kHermes, "<tool_call>{\"name\": \"f\"}"), "0.f|0:{}|");
  EXPECT_EQ(parsed(kHermes,
                   "<tool_call>{\"name\": \"f\", \"arguments\": {}}<tool_call>{\"name\": "
                   "\"f\", \"parameters\": {}}</tool_call"),
            "0.f|0:{}|1.f|1:{}|");
  // A string contains a line feed, which JSON forbids.
  EXPECT_EQ(parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}"),
            "0.f|0:{\"a\": \"x\\ny\"}|");
  EXPECT_EQ(
      parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call> Done."),
      "0.f|0:{\"a\": 1}|C: Done.|");
}

TEST(HermesCalls, MalformedCallsBecomeContent) {
  for (const std::string text :
       {"No call.", " <tool_cal", "x <tool_call>\n{\"name\": 5, \"arguments\": {}}</tool_call>",
        "<tool_call>f()</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arg", "a < b <tool <tool_call", "<tool_call>{}", "  \n "}) {
    EXPECT_EQ(parsed(kHermes, text), "C:" + text + "|");
  }
  // Only the second attempt is a valid call.
  EXPECT_EQ(
      parsed(kHermes, "<tool_call><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"),
      "C:<tool_call>|0.f|0:{}|");
  // The arguments have already been passed on.
  EXPECT_EQ(
      parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call>"),
      "0.f|0:{\"a\": |C:oops}}</tool_call>|");
  EXPECT_EQ(parsed(kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b"),
            "0.f|0:{\"a\": \"b|");
}

TEST(LlamaCalls, AreRecognized) {
  EXPECT_EQ(parsed(kLlama, "{\"name\": \"f\", \"parameters\": {\"a\": \"1\"}}"),
            "0.f|0:{\"a\": \"1\"}|");
  EXPECT_EQ(parsed(kLlama,
                   "\n<|python_tag|>{\"type\": \"function\", \"name\": \"other\", "
                   "\"parameters\": {}}; {\"name\": \"f\", \"parameters\": {\"x\": null}}"),
            "0.other|0:{}|1.f|1:{\"x\": null}|");
  EXPECT_EQ(parsed(kLlama, "{\"name\": \"f\", \"parameters\": {}} and more"),
            "0.f|0:{}|C: and more|");
}

TEST(LlamaCalls, CallsOfUnknownToolsBecomeContent) {
  for (const std::string text :
       {"The answer is {\"name\": \"f\", \"parameters\": {}}", "{\"name\": \"Ann\", \"age\": 7}",
        "{\"name\": \"g\", \"parameters\": {\"a\": 1}}", "{\"a\": [1, 2]}", "{not json", "  ",
        "{\"name\": \"f\"", "<|python_tag|>print(1)", "{\"parameters\": {}, \"name\": \"f\"}"}) {
    EXPECT_EQ(parsed(kLlama, text), "C:" + text + "|");
  }
}

// JSON that cannot become a call is passed on at once.
TEST(LlamaCalls, DoNotDelayOtherJson) {
  OutputParser parser(Thinking::kNone, make_llama_parser(tools()));
  EXPECT_TRUE(parser.push("{\"ans").empty());
  EXPECT_EQ(parser.push("wer\": \"long"),
            (std::vector<OutputDelta>{{Kind::kContent, "{\"answer\": \"long", 0}}));
}

TEST(MistralCalls, AreRecognized) {
  EXPECT_EQ(parsed(kMistral,
                   "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": "
                   "\"abcdefghi\"}, {\"name\": \"g\", \"arguments\": {}}]"),
            "0.f|0:{\"a\": 1}|1.g|1:{}|");
  EXPECT_EQ(parsed(kMistral, "Well. [TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g{}"),
            "C:Well.|0.f|0:{\"a\": \"[TOOL_CALLS]\"}|1.g|1:{}|");
  EXPECT_EQ(parsed(kMistral, "[TOOL_CALLS]f[CALL_ID]abc123[ARGS]{\"a\": 1}"), "0.f|0:{\"a\": 1}|");
}

TEST(MistralCalls, MalformedCallsBecomeContent) {
  for (const std::string text :
       {"[TOOL_CALLS]", "[TOOL_CALLS] [", "[TOOL_CALLS] [5]", "[TOOL_CALLS]no name {}",
        "[TOOL_CALLS]f[ARGS]", "[TOOL_CALL", "[TOOL_CALLS]{}"}) {
    EXPECT_EQ(parsed(kMistral, text), "C:" + text + "|");
  }
  EXPECT_EQ(parsed(kMistral, "[TOOL_CALLS]f[ARGS]{\"a\" 1}"), "0.f|0:{\"a\" |C:1}|");
}

constexpr Setting kXml{ToolSyntax::kXml};

std::string xml_call(const std::string& parameters) {
  return "<tool_call>\n<function=f>\n" + parameters + "</function>\n</tool_call>";
}
std::string xml_value(const std::string& name, const std::string& value) {
  return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
}

TEST(XmlCalls, AreRecognized) {
  EXPECT_EQ(parsed(kXml, xml_call("")), "0.f|0:{}|");
  EXPECT_EQ(parsed(kXml, "I look.\n" + xml_call(xml_value("text", "a b")) + "\n" +
                             xml_call(xml_value("n", "2") + xml_value("list", "[1, \"x\"]"))),
            "C:I look.|0.f|0:{\"text\": \"a b\"}|1.f|1:{\"n\": 2, \"list\": [1,\"x\"]}|");
  EXPECT_EQ(parsed(kXml, "<tool_call><function=unheard.of><parameter=a>5</parameter></function>"),
            "0.unheard.of|0:{\"a\": \"5\"}|");
}

// Small models forget the tag before a call, or the one after it.
TEST(XmlCalls, MayLackTheirOuterTags) {
  const std::string call = "<function=f>\n" + xml_value("n", "1");
  EXPECT_EQ(parsed(kXml, "So:\n" + call + "</function>\n"), "C:So:|0.f|0:{\"n\": 1}|");
  EXPECT_EQ(parsed(kXml, call + "</function>\n" + call + "</function>\n</tool_call>"),
            "0.f|0:{\"n\": 1}|1.f|1:{\"n\": 1}|");
  EXPECT_EQ(parsed(kXml, "<tool_call>" + call + "</tool_call>\nSo."), "0.f|0:{\"n\": 1}|C:\nSo.|");
}

TEST(XmlCalls, ValuesHaveTheTypesOfTheSchema) {
  const std::pair<std::string, std::string> values[] = {
      {xml_value("text", "7"), "\"7\""},
      {xml_value("text", "if (a < b) {\n\tprint(\"x\\\\\");\n}\n</par>"),
       "\"if (a < b) {\\n\\tprint(\\\"x\\\\\\\\\\\");\\n}\\n</par>\""},
      {xml_value("text", ""), "\"\""},
      {xml_value("text", "\n\nx\n\n"), "\"\\n\\nx\\n\\n\""},
      {xml_value("unit", "C"), "\"C\""},
      {xml_value("maybe", "null"), "null"},
      {xml_value("maybe", "5"), "\"5\""},
      {xml_value("any", "5"), "5"},
      {xml_value("any", "five"), "\"five\""},
      {xml_value("n", "many"), "\"many\""},
      {xml_value("on", "True"), "true"},
      {xml_value("on", "false"), "false"},
      {xml_value("other", "[1]"), "\"[1]\""},
      {xml_value("list", "['a', {'b': None}]"), "[\"a\",{\"b\":null}]"},
      {xml_value("list", "['a'"), "\"['a'\""},
  };
  for (const auto& [parameter, json] : values) {
    const std::string name = parameter.substr(11, parameter.find('>') - 11);
    EXPECT_EQ(parsed(kXml, xml_call(parameter)), "0.f|0:{\"" + name + "\": " + json + "}|");
  }
}

TEST(XmlCalls, MalformedCallsBecomeContent) {
  for (const char* text : {"<tool_call>", "<tool_call>\n<func", "<tool_call>{\"name\": \"f\"}",
                           "<tool_call><function=>", "<tool_call><function=f", "<function=unheard>",
                           "<tool_call><function=f\n>"})
    EXPECT_EQ(parsed(kXml, text), std::string("C:") + text + "|");
  EXPECT_EQ(parsed(kXml, "<tool_call><function=f>oops</function>"), "0.f|0:{}|C:oops</function>|");
  EXPECT_EQ(parsed(kXml, "<tool_call><function=f>" + xml_value("n", "1") + "oops"),
            "0.f|0:{\"n\": 1}|C:oops|");
  // Arguments that are cut off must not become complete JSON: nobody may take them for a call that
  // the model meant.
  EXPECT_EQ(parsed(kXml, "<tool_call><function=f><parameter=text>\nrm -r /tmp"),
            "0.f|0:{\"text\": \"rm -r /tmp|");
  EXPECT_EQ(parsed(kXml, "<tool_call><function=f>" + xml_value("n", "1")), "0.f|0:{\"n\": 1|");
}

TEST(Calls, OnlyTheFirstIsKeptIfOneIsAllowed) {
  const Setting one{ToolSyntax::kHermes, Thinking::kNone, false};
  EXPECT_EQ(parsed(one,
                   "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{"
                   "\"name\": \"f\", \"arguments\": {}}</tool_call>x"),
            "0.f|0:{}|");
}

TEST(Thoughts, AreSeparatedFromTheContent) {
  const Setting may{ToolSyntax::kNone, Thinking::kOptional},
      inside{ToolSyntax::kNone, Thinking::kOpened};
  EXPECT_EQ(parsed(may, "<think>\nHm.\n\nSo.\n</think>\n\nHello.\n"), "T:Hm.\n\nSo.|C:Hello.\n|");
  EXPECT_EQ(parsed(may, "\n<think>\n\n</think>\n\nHello."), "C:Hello.|");
  EXPECT_EQ(parsed(may, "Hello <think>x</think>"), "C:Hello <think>x</think>|");
  EXPECT_EQ(parsed(may, " <thin"), "C: <thin|");
  EXPECT_EQ(parsed(may, "<think>cut </thi"), "T:cut </thi|");
  EXPECT_EQ(parsed(inside, "\nHm.</think>Hi"), "T:Hm.|C:Hi|");
  EXPECT_EQ(parsed(inside, "a < b </thing> c\n</think>"), "T:a < b </thing> c|");
  EXPECT_EQ(parsed({}, "<think>x</think>"), "C:<think>x</think>|");
  // A call inside the thoughts is not a call.
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(
      parsed({ToolSyntax::kHermes, Thinking::kOptional}, "<think>" + call + "</think>\n\n" + call),
      "T:" + call + "|0.f|0:{}|");
}

// White space is held back, because it is dropped if a mark follows. A model may write it without
// end, and the time must not grow with its square.
TEST(OutputParser, WhiteSpaceWithoutEndTakesLittleTime) {
  const std::string lines(1'000'000, '\n');
  const Setting thinks{ToolSyntax::kHermes, Thinking::kOptional};
  EXPECT_EQ(parsed(thinks, lines + "a"), "C:" + lines + "a|");
  EXPECT_EQ(parsed(thinks, "<think>a" + lines + "b"), "T:a" + lines + "b|");
  EXPECT_EQ(parsed(kHermes, "a" + lines + "b"), "C:a" + lines + "b|");
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}";
  EXPECT_EQ(parsed(kHermes, call + lines + "a"), "0.f|0:{}|C:" + lines + "a|");
}

std::string random_text(std::mt19937& random, const std::vector<std::string>& parts) {
  std::string text;
  for (size_t count = random() % 12; count > 0; --count) text += parts[random() % parts.size()];
  return text;
}

std::vector<std::string> cut(std::mt19937& random, const std::string& text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t length = random() % 7;
    pieces.push_back(text.substr(at, length));
    at += length;
  }
  return pieces;
}

// The result is the same however a text is cut. In text that is not a call, only white space and
// marks are lost.
TEST(OutputParser, DoesNotDependOnHowTheTextIsCut) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  const std::vector<std::string> parts = {"<tool_call>",
                                          "</tool_call>",
                                          "[TOOL_CALLS]",
                                          "[ARGS]",
                                          "<|python_tag|>",
                                          "<think>",
                                          "</think>",
                                          "\n",
                                          " ",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ";",
                                          "f",
                                          "<",
                                          "é",
                                          "😀",
                                          "\"",
                                          "\\",
                                          "{\"name\": \"f\", \"arguments\": {\"a\": \"é\"}}",
                                          "{\"name\": \"f\", \"parameters\": {",
                                          "\"a\": [1, 2]",
                                          "text",
                                          "[{\"name\": \"g\", \"arguments\": {}}",
                                          "<tool_call><function=f>",
                                          "<parameter=n>",
                                          "<parameter=text>",
                                          "</parameter>",
                                          "</function>"};
  constexpr ToolSyntax kSyntaxes[] = {
      ToolSyntax::kNone,  ToolSyntax::kDescribed, ToolSyntax::kHermes,       ToolSyntax::kXml,
      ToolSyntax::kLlama, ToolSyntax::kMistral,   ToolSyntax::kMistralByName};
  int calls = 0;
  for (int round = 0; round < 20'000; ++round) {
    const ToolSyntax syntax = kSyntaxes[random() % std::size(kSyntaxes)];
    const auto thinking = static_cast<Thinking>(random() % 3);
    const Setting setting{syntax, thinking, random() % 4 != 0};
    const std::string text = random_text(random, parts);
    const auto whole = parse(setting, {text});
    EXPECT_EQ(parse(setting, cut(random, text)), whole) << text;
    for (const OutputDelta& delta : whole) calls += delta.kind == Kind::kCall ? 1 : 0;
  }
  EXPECT_GT(calls, 100);
}

}  // namespace
}  // namespace neuronmm::serve
