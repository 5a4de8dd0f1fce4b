#include "serve/output/call_opening.h"

#include <algorithm>
#include <utility>

namespace neuronmm::serve {
namespace {

constexpr std::string_view kFenceMark = "```";
constexpr size_t kMostFenceBytes = 32;  // a longer line with ``` begins no block of JSON. Assumed
// The words after ``` with which models begin blocks of calls. Other blocks are code.
constexpr std::string_view kCallFences[] = {"", "json", "JSON", "tool_call", "tool_calls", "tool"};

}  // namespace

size_t CallOpening::space() const {
  const size_t end = held_.find_first_not_of(" \n\t\r");
  return end == std::string::npos ? held_.size() : end;
}

CallOpening::Match CallOpening::match_fence(std::string_view rest) {
  if (kFenceMark.starts_with(rest)) return Match::kPartial;
  if (!rest.starts_with(kFenceMark)) return Match::kNone;
  if (rest.back() != '\n') return rest.size() < kMostFenceBytes ? Match::kPartial : Match::kCode;
  std::string_view word = rest.substr(kFenceMark.size());
  const size_t end = word.find_last_not_of(" \t\r\n");
  word = word.substr(0, end == std::string_view::npos ? 0 : end + 1);
  return std::ranges::count(kCallFences, word) > 0 ? Match::kFence : Match::kCode;
}

CallOpening::Match CallOpening::match(std::string_view rest, bool begins_line) const {
  if (rest.empty()) return Match::kPartial;
  if (rest == mark_) return Match::kMark;
  if (mark_.starts_with(rest)) return Match::kPartial;
  if (!begins_line) return Match::kNone;
  if (in_code_) {
    if (rest == kFenceMark) return Match::kCode;
    return kFenceMark.starts_with(rest) ? Match::kPartial : Match::kNone;
  }
  if (rest == "{" || rest == "[") return Match::kJson;
  return match_fence(rest);
}

std::optional<CallOpening::Kind> CallOpening::push(char c, std::string& out) {
  held_ += c;
  for (;;) {
    const size_t begin = space();
    const bool begins_line =
        at_line_start_ || std::string_view(held_).substr(0, begin).find('\n') != std::string::npos;
    switch (match(std::string_view(held_).substr(begin), begins_line)) {
      case Match::kPartial:
        return std::nullopt;
      case Match::kMark:
        return Kind::kMark;
      case Match::kFence:
        return Kind::kFence;
      case Match::kJson:
        return Kind::kJson;
      case Match::kCode:
        in_code_ = !in_code_;
        at_line_start_ = held_.ends_with('\n');
        out += std::exchange(held_, {});
        return std::nullopt;
      case Match::kNone:
        at_line_start_ = false;
        out += held_.substr(0, begin + 1);
        held_.erase(0, begin + 1);
    }
  }
}

}  // namespace neuronmm::serve
