// Reads any text as an answer (the first byte chooses how calls are written and whether there are
// thoughts). Pushing the text byte by byte must give the same deltas as pushing it at once. Calls
// must be numbered in order, and their arguments must be the beginning of a JSON object.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serve/output/json_scanner.h"
#include "serve/output/output_parser.h"

namespace {

using namespace neuronmm::serve;

// The first tool's parameters have types, for syntaxes that write arguments as text.
ToolList tools() {
  static const ToolList list = std::make_shared<const std::vector<Tool>>(std::vector<Tool>{
      {.name = "f", .parameters = Json::parse(R"({"properties": {"a": {"type": "integer"},
                                                 "b": {"type": ["string", "null"]}}})")},
      {.name = "g"}});
  return list;
}

std::vector<OutputDelta> parse(uint8_t how, std::string_view text, size_t piece) {
  constexpr int kSyntaxes = static_cast<int>(ToolSyntax::kMistralByName) + 1;
  OutputParser parser(static_cast<Thinking>(how / kSyntaxes % 3),
                      make_tool_call_parser(static_cast<ToolSyntax>(how % kSyntaxes), tools()));
  OutputDeltas all;
  const auto add = [&](const std::vector<OutputDelta>& deltas) {
    for (const OutputDelta& delta : deltas) {
      switch (delta.kind) {
        case OutputDelta::Kind::kReasoning:
          all.reasoning(delta.text);
          break;
        case OutputDelta::Kind::kContent:
          all.content(delta.text);
          break;
        case OutputDelta::Kind::kCall:
          all.call(delta.text, delta.call);
          break;
        case OutputDelta::Kind::kArguments:
          all.arguments(delta.text, delta.call);
          break;
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) add(parser.push(text.substr(at, piece)));
  add(parser.finish());
  return all.take();
}

bool begins_json(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.push(text[i]);
    if (step != JsonScanner::Step::kMore)
      return step == JsonScanner::Step::kEnd && i + 1 == text.size();
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = parse(data[0], text, text.size() + 1);
  NMM_CHECK(parse(data[0], text, 1) == whole);
  int64_t calls = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].kind == OutputDelta::Kind::kCall) NMM_CHECK(whole[i].call == calls++);
    if (whole[i].kind != OutputDelta::Kind::kArguments) continue;
    NMM_CHECK(whole[i].call == calls - 1);
    NMM_CHECK(whole[i].text.starts_with("{") && begins_json(whole[i].text));
  }
  return 0;
}
