// Tests with random calls: each family's syntax is written, and read in random pieces. The result
// must be the calls. Python itself writes and evaluates the literals of the last test.

#include <cstdio>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "places.h"
#include "serve/output/output_parser.h"
#include "serve/output/python_literal.h"
#include "serve/protocol/written_calls.h"

namespace neuronmm::serve {
namespace {

using Kind = OutputDelta::Kind;

// Makes calls and texts. What one family cannot write is left out for all.
class RandomCalls {
 public:
  explicit RandomCalls(std::mt19937& random) : random_(random) {}

  std::vector<WrittenCall> calls() {
    std::vector<WrittenCall> list(1 + pick(3));
    for (WrittenCall& call : list) {
      call.name = name();
      for (size_t count = pick(4); count > 0; --count) call.arguments[name()] = value(3);
    }
    return list;
  }

  // Returns the text in pieces.
  std::vector<std::string> cut(const std::string& text) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + pick(pick(4) == 0 ? 40 : 4);
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    return pieces;
  }

 private:
  size_t pick(size_t count) { return random_() % count; }

  std::string name() {
    static const std::vector<std::string> names = {"f",    "get_weather", "a",    "city2",    "_x",
                                                   "Nein", "print_all",   "name", "arguments"};
    return names[pick(names.size())];
  }

  std::string text() {
    static const std::vector<std::string> parts = {
        "a",  " ", "it's", "\"",   "'",    "\\", "\\n", "\n", "\t",     "é",    "東京", "😀",
        "{",  "}", "[",    "]",    "(",    ")",  ",",   ", ", "='",     "':",   "<",    ">",
        "</", "&", "```",  "True", "null", "7",  "-",   ":",  "f(a=1)", "\x01", "#",    "<b>"};
    std::string text;
    for (size_t count = pick(6); count > 0; --count) text += parts[pick(parts.size())];
    return text;
  }

  Json value(int depth) {
    const size_t kind = pick(depth > 0 ? 8 : 6);
    if (kind < 2) return text();
    if (kind == 2) return static_cast<int64_t>(random_()) - (int64_t{1} << 31);
    if (kind == 3) return static_cast<double>(random_()) / 4096;
    if (kind == 4) return pick(2) == 0;
    if (kind == 5) return nullptr;
    Json list = kind == 6 ? Json::array() : Json::object();
    for (size_t count = pick(4); count > 0; --count) {
      if (kind == 6)
        list.push_back(value(depth - 1));
      else
        list[name()] = value(depth - 1);
    }
    return list;
  }

  std::mt19937& random_;
};

// Returns tools whose schemas give the arguments of the calls their types.
ToolList tools_of(const std::vector<WrittenCall>& calls) {
  std::vector<Tool> tools;
  std::set<std::string> names;
  for (const WrittenCall& call : calls) {
    Json properties = Json::object();
    for (const auto& [key, value] : call.arguments.items())
      properties[key] = {{"type", value.is_string()   ? "string"
                                  : value.is_object() ? "object"
                                  : value.is_array()  ? "array"
                                                      : "number"}};
    if (names.insert(call.name).second)
      tools.push_back(
          {.name = call.name, .parameters = {{"type", "object"}, {"properties", properties}}});
  }
  return std::make_shared<const std::vector<Tool>>(std::move(tools));
}

// Returns whether a later call gives an argument another type than the schema of its tool.
bool has_clashing_types(const std::vector<WrittenCall>& calls) {
  std::set<std::string> names;
  for (const WrittenCall& call : calls)
    if (!names.insert(call.name).second) return true;
  return false;
}

std::vector<OutputDelta> deltas_of(ToolSyntax syntax, const ToolList& tools,
                                   const std::vector<std::string>& pieces) {
  const auto parser = make_tool_call_parser(syntax, tools);
  OutputDeltas deltas;
  for (const std::string& piece : pieces) parser->push(piece, deltas);
  parser->finish(deltas);
  return deltas.take();
}

// Returns the calls as "name{...}" and the content as "C:...", each in a line.
std::string read_calls(const std::vector<OutputDelta>& deltas) {
  std::string lines, arguments;
  const auto end_call = [&] {
    if (!arguments.empty()) lines += Json::parse(arguments, nullptr, false).dump() + "\n";
    arguments.clear();
  };
  for (const OutputDelta& delta : deltas) {
    if (delta.kind != Kind::kArguments) end_call();
    if (delta.kind == Kind::kContent) lines += "C:" + delta.text + "\n";
    if (delta.kind == Kind::kCall) lines += delta.text;
    if (delta.kind == Kind::kArguments) arguments += delta.text;
  }
  end_call();
  return lines;
}

bool begins_object(const std::string& text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.push(text[i]);
    if (step != JsonScanner::Step::kMore)
      return step == JsonScanner::Step::kEnd && i + 1 == text.size();
  }
  return text.starts_with("{");
}

TEST(RandomCalls, OfEachFamilyAreReadInAnyPieces) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  RandomCalls maker(random);
  for (int round = 0; round < 300; ++round) {
    const std::vector<WrittenCall> calls = maker.calls();
    if (has_clashing_types(calls)) continue;
    const ToolList tools = tools_of(calls);
    std::string expected;
    for (const WrittenCall& call : calls) expected += call.name + call.arguments.dump() + "\n";
    for (const ToolSyntax syntax : all_call_syntaxes()) {
      const std::string text = written_calls(syntax, calls);
      ASSERT_EQ(read_calls(deltas_of(syntax, tools, maker.cut(text))), expected)
          << "seed " << seed << ", syntax " << static_cast<int>(syntax) << "\n"
          << text;
    }
  }
}

// The deltas of a text that is cut off or changed do not depend on its pieces either, and arguments
// are always the beginning of a JSON object.
TEST(RandomCalls, BrokenTextsDoNotDependOnTheirPieces) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  RandomCalls maker(random);
  for (int round = 0; round < 100; ++round) {
    const std::vector<WrittenCall> calls = maker.calls();
    const ToolList tools = tools_of(calls);
    for (const ToolSyntax syntax : all_call_syntaxes()) {
      std::string text = "Well. " + written_calls(syntax, calls) + " Done.";
      if (round % 2 == 0) text = text.substr(6);
      text.erase(random() % text.size(), 1 + random() % 3);
      text.insert(random() % text.size(), 1, "<[{(\"'\\=,:é"[random() % 11]);
      if (round % 3 == 0) text.resize(random() % text.size());
      ASSERT_EQ(deltas_of(syntax, tools, maker.cut(text)), deltas_of(syntax, tools, {text}))
          << "seed " << seed << ", syntax " << static_cast<int>(syntax) << "\n"
          << text;
      for (const OutputDelta& delta : deltas_of(syntax, tools, {text})) {
        if (delta.kind != Kind::kArguments) continue;
        ASSERT_TRUE(begins_object(delta.text)) << delta.text << "\n" << text;
      }
    }
  }
}

// The script prints pairs of a literal and the JSON of its value.
TEST(PythonLiterals, HaveTheValuesThatPythonGivesThem) {
  if (std::system("python3 -c '' 2>/dev/null") != 0)
    GTEST_SKIP() << "no python3: tools/install_dependencies.sh test";
  const auto script = source_dir() / "tests/serve/protocol/python_literals.py";
  FILE* pipe = popen(fmt::format("python3 '{}' 2000", script.string()).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[1 << 14];
  for (size_t count; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, count);
  ASSERT_EQ(pclose(pipe), 0);
  const Json cases = Json::parse(output);
  ASSERT_EQ(cases.size(), 2000U);
  for (const Json& pair : cases) {
    const std::string literal = pair[0];
    const auto json = python_to_json(literal);
    ASSERT_TRUE(json) << literal;
    ASSERT_EQ(Json::parse(*json, nullptr, false), Json::parse(pair[1].get<std::string>()))
        << literal << "\n"
        << *json;
  }
}

}  // namespace
}  // namespace neuronmm::serve
