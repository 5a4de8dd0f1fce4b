// Any text of an answer (the first byte chooses how calls are written and whether there are
// thoughts): byte by byte the same is told as at once, calls are numbered on, and arguments that
// are complete are JSON.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serve/protocol/answer_parser.h"
#include "serve/protocol/json_body.h"

namespace {

using namespace neuronmm::serve;

std::vector<AnswerDelta> parse(uint8_t how, std::string_view text, size_t piece) {
  AnswerParser parser(static_cast<Thinking>(how / 6 % 3),
                      make_tool_call_parser(static_cast<ToolSyntax>(how % 6), {"f", "g"}));
  AnswerDeltas all;
  const auto add = [&](const std::vector<AnswerDelta>& deltas) {
    for (const AnswerDelta& delta : deltas) {
      switch (delta.kind) {
        case AnswerDelta::Kind::kReasoning:
          all.reasoning(delta.text);
          break;
        case AnswerDelta::Kind::kContent:
          all.content(delta.text);
          break;
        case AnswerDelta::Kind::kCall:
          all.call(delta.text, delta.call);
          break;
        case AnswerDelta::Kind::kArguments:
          all.arguments(delta.text, delta.call);
          break;
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) add(parser.push(text.substr(at, piece)));
  add(parser.finish());
  return all.take();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = parse(data[0], text, text.size() + 1);
  NMM_CHECK(parse(data[0], text, 1) == whole);
  int64_t calls = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i].kind == AnswerDelta::Kind::kCall) NMM_CHECK(whole[i].call == calls++);
    if (whole[i].kind != AnswerDelta::Kind::kArguments) continue;
    NMM_CHECK(whole[i].call == calls - 1);
    // A call behind it shows that its arguments were complete, unless content says otherwise.
    const bool complete = i + 1 < whole.size() && whole[i + 1].kind == AnswerDelta::Kind::kCall;
    const bool is_utf8 = Json(whole[i].text).dump(-1, ' ', false, Json::error_handler_t::ignore) ==
                         Json(whole[i].text).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (complete && is_utf8) NMM_CHECK(Json::accept(whole[i].text));
  }
  return 0;
}
