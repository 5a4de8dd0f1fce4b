#include "serve/output/call_opening.h"

#include <algorithm>

#include "serve/output/call_bytes.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kFenceMark = "```";
constexpr size_t kMostFenceBytes = 32;  // a longer line with ``` begins no block of JSON. Assumed
// The words after ``` with which models begin blocks of calls. Other blocks are code.
constexpr std::string_view kCallFences[] = {"", "json", "JSON", "tool_call", "tool_calls", "tool"};

}  // namespace

void CallOpening::find_space() {
  for (; space_ < held_.size() && is_call_space(held_[space_]); ++space_)
    space_has_line_end_ = space_has_line_end_ || held_[space_] == '\n';
}

void CallOpening::drop(size_t bytes) {
  held_.erase(0, bytes);
  space_ = 0;
  space_has_line_end_ = false;
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
    find_space();
    const bool begins_line = at_line_start_ || space_has_line_end_;
    switch (match(std::string_view(held_).substr(space_), begins_line)) {
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
        out += held_;
        clear();
        return std::nullopt;
      case Match::kNone:
        at_line_start_ = false;
        out.append(held_, 0, space_ + 1);
        drop(space_ + 1);
    }
  }
}

}  // namespace neuronmm::serve
