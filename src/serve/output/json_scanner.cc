#include "serve/output/json_scanner.h"

#include <fmt/format.h>

#include "serve/output/call_bytes.h"
#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

// How deep a value may nest, and the longest number or word in bytes. Assumed: a double in decimal
// digits takes up to 330 bytes.
constexpr size_t kMaxOpen = 100, kMaxWord = 400;

}  // namespace

JsonScanner::Step JsonScanner::push(char c) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kHex:
      return in_key_or_string(c);
    case State::kWord:
      return in_word(c);
    default:
      break;
  }
  if (is_call_space(c)) return Step::kMore;
  switch (state_) {
    case State::kFirstMember:
      if (c == '}') return open_.pop_back(), ended();
      [[fallthrough]];
    case State::kMember:
      if (c != '"') return Step::kInvalid;
      is_key_ = true;
      state_ = State::kString;
      return Step::kMore;
    case State::kColon:
      if (c != ':') return Step::kInvalid;
      state_ = State::kValue;
      return Step::kMore;
    case State::kFirstElement:
      if (c == ']') return open_.pop_back(), ended();
      return begin_value(c);
    case State::kAfter:
      return after_value(c);
    default:
      return begin_value(c);
  }
}

JsonScanner::Step JsonScanner::open(char container) {
  if (open_.size() >= kMaxOpen) return Step::kInvalid;
  open_.push_back(container);
  state_ = container == '{' ? State::kFirstMember : State::kFirstElement;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') return open(c);
  if (c == '"') {
    is_key_ = false;
    state_ = State::kString;
    return Step::kMore;
  }
  word_.assign(1, c);
  state_ = State::kWord;
  const bool begins_word = c == '-' || is_call_digit(c) || c == 't' || c == 'f' || c == 'n';
  return begins_word ? Step::kMore : Step::kInvalid;
}

JsonScanner::Step JsonScanner::after_value(char c) {
  const bool in_object = open_.back() == '{';
  if (c == ',') {
    state_ = in_object ? State::kMember : State::kValue;
    return Step::kMore;
  }
  if (c != (in_object ? '}' : ']')) return Step::kInvalid;
  open_.pop_back();
  return ended();
}

JsonScanner::Step JsonScanner::in_key_or_string(char c) {
  if (state_ == State::kHex) {
    if (!is_hex_digit(c)) return Step::kInvalid;
    if (--hex_digits_ == 0) state_ = State::kString;
    return Step::kMore;
  }
  if (state_ == State::kEscape) {
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return Step::kInvalid;
    state_ = c == 'u' ? State::kHex : State::kString;
    hex_digits_ = 4;
    return Step::kMore;
  }
  if (c == '\\') state_ = State::kEscape;
  if (c != '"') return Step::kMore;
  if (!is_key_) return ended();
  state_ = State::kColon;
  return Step::kMore;
}

// Ends a value whose last byte was just read.
JsonScanner::Step JsonScanner::ended() {
  state_ = State::kAfter;
  return open_.empty() ? Step::kEnd : Step::kMore;
}

JsonScanner::Step JsonScanner::in_word(char c) {
  const bool goes_on =
      is_call_digit(c) || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
  if (goes_on) {
    word_ += c;
    return word_.size() <= kMaxWord ? Step::kMore : Step::kInvalid;
  }
  if (!Json::accept(word_)) return Step::kInvalid;
  state_ = State::kAfter;
  if (open_.empty()) return Step::kEndBefore;
  return is_call_space(c) ? Step::kMore : after_value(c);
}

std::string escaped_control(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  }
}

}  // namespace neuronmm::serve
