#include "serve/output/python_literal.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "serve/output/call_bytes.h"
#include "serve/output/python_number.h"
#include "serve/output/tool_parameter.h"
#include "text/unicode/utf8.h"

namespace neuronmm::serve {
namespace {

constexpr size_t kDeepest = 100;         // open lists, tuples and dicts. Assumed
constexpr size_t kMostWordBytes = 4096;  // limit for numbers and words without quotes. Assumed

bool begins_word(char c) {
  return is_call_letter(c) || is_call_digit(c) || c == '_' || c == '-' || c == '+' || c == '.' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// Returns whether a word is the prefix of a string, as in r"...".
bool is_string_prefix(std::string_view word) {
  return word.size() <= 2 && word.find_first_not_of("rRbBuUfF") == std::string_view::npos;
}

// Returns the JSON of a number or a word without quotes.
std::string word_json(std::string_view word) {
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  if (auto number = number_json(word)) return *std::move(number);
  return "\"" + escaped(word) + "\"";
}

}  // namespace

PythonLiteral::Step PythonLiteral::push(char c, std::string& json) {
  const Step step = dispatch(c);
  if (undecided_ == 0) json += std::exchange(json_, {});
  return step;
}

PythonLiteral::Step PythonLiteral::dispatch(char c) {
  switch (state_) {
    case State::kValue:
      return begin_value(c);
    case State::kOpening:
      return opening(c);
    case State::kString:
      return in_string(c);
    case State::kEscape:
      return in_escape(c);
    case State::kCode:
      return in_code(c);
    case State::kClosing:
      return closing(c);
    case State::kWord:
      return in_word(c);
    case State::kMark:
      return in_mark(c);
    case State::kMarked:
      return in_marked(c);
    case State::kAfter:
      return after_value(c);
  }
  return Step::kInvalid;
}

PythonLiteral::Step PythonLiteral::begin_value(char c) {
  if (is_call_space(c)) return Step::kMore;
  if (!levels_.empty() && c == levels_.back().close && levels_.back().may_close) return close();
  const bool is_key = in_key();
  settle();
  if (c == '[' || c == '{' || c == '(') return is_key ? Step::kInvalid : open(c);
  word_.clear();
  held_.clear();
  if (!quote_mark_.empty() && c == quote_mark_.front()) {
    state_ = State::kMark;
    return in_mark(c);
  }
  if (c == '"' || c == '\'') {
    emit("\"");
    is_raw_ = false;
    quote_ = c;
    quotes_ = 1;
    state_ = State::kOpening;
    return Step::kMore;
  }
  if (!begins_word(c)) return Step::kInvalid;
  state_ = State::kWord;
  word_ = c;
  return Step::kMore;
}

PythonLiteral::Step PythonLiteral::open(char c) {
  if (levels_.size() >= kDeepest) return Step::kInvalid;
  levels_.push_back({.close = c == '[' ? ']' : c == '{' ? '}' : ')', .is_key = c == '{'});
  state_ = State::kValue;
  if (c != '(') {
    emit(std::string_view(&c, 1));
  } else {
    levels_.back().open_at = json_.size();
    ++undecided_;
  }
  return Step::kMore;
}

// Writes the comma before a value that follows another.
void PythonLiteral::settle() {
  if (levels_.empty()) return;
  if (std::exchange(levels_.back().comma, false)) emit(", ");
  levels_.back().may_close = false;
}

void PythonLiteral::decide_tuple() {
  std::optional<size_t>& at = levels_.back().open_at;
  if (!at) return;
  json_.insert(*at, "[");
  at.reset();
  --undecided_;
}

PythonLiteral::Step PythonLiteral::close() {
  const char bracket = levels_.back().close;
  // Parentheses around one value without a comma are no tuple.
  const bool is_tuple = !levels_.back().open_at || *levels_.back().open_at == json_.size();
  if (is_tuple) decide_tuple();
  if (bracket != ')')
    emit(std::string_view(&bracket, 1));
  else if (is_tuple)
    emit("]");
  else
    --undecided_;
  levels_.pop_back();
  return end_value();
}

PythonLiteral::Step PythonLiteral::end_value() {
  state_ = State::kAfter;
  return levels_.empty() ? Step::kEnd : Step::kMore;
}

// Ends a value before the byte that showed its end.
PythonLiteral::Step PythonLiteral::end_before(char c) {
  state_ = State::kAfter;
  return levels_.empty() ? Step::kEndBefore : after_value(c);
}

PythonLiteral::Step PythonLiteral::after_value(char c) {
  if (is_call_space(c)) return Step::kMore;
  Level& level = levels_.back();
  if (c == level.close && !level.is_key) return close();
  if (c == ':' && level.is_key) {
    emit(": ");
    level.is_key = false;
  } else if (c == ',' && !level.is_key) {
    decide_tuple();
    level.comma = level.may_close = true;
    level.is_key = level.close == '}';
  } else {
    return Step::kInvalid;
  }
  state_ = State::kValue;
  return Step::kMore;
}

bool PythonLiteral::is_terminator(char c) const {
  if (in_key()) return c == ':';
  return c == ',' || c == (levels_.empty() ? ')' : levels_.back().close);
}

// Adds a byte after the first quote of a string, which may be the first of three.
PythonLiteral::Step PythonLiteral::opening(char c) {
  triple_ = false;
  state_ = State::kString;
  if (quotes_ == 1 && c != quote_) return in_string(c);
  if (quotes_ == 1) {
    quotes_ = 2;
    state_ = State::kOpening;
    return Step::kMore;
  }
  if (c == quote_) {
    triple_ = true;
    return Step::kMore;
  }
  // Two quotes are an empty string.
  held_.assign(1, quote_);
  state_ = State::kClosing;
  return closing(c);
}

PythonLiteral::Step PythonLiteral::in_string(char c) {
  if (c == '\\') {
    state_ = State::kEscape;
  } else if (c == quote_) {
    held_.assign(1, c);
    state_ = State::kClosing;
  } else {
    emit_text(std::string_view(&c, 1));
  }
  return Step::kMore;
}

PythonLiteral::Step PythonLiteral::in_escape(char c) {
  constexpr std::string_view kLetters = "ntrbfva\\'\"", kBytes = "\n\t\r\b\f\v\a\\'\"";
  state_ = State::kString;
  const size_t letter = kLetters.find(c);
  if (is_raw_) {
    emit_text("\\");
    emit_text(std::string_view(&c, 1));
  } else if (letter != std::string_view::npos) {
    emit_text(kBytes.substr(letter, 1));
  } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
    code_kind_ = is_call_digit(c) ? '0' : c;
    digits_.assign(is_call_digit(c) ? 1 : 0, c);
    state_ = State::kCode;
  } else if (c != '\n') {  // a line end after a backslash is dropped
    emit_text("\\");
    emit_text(std::string_view(&c, 1));
  }
  return Step::kMore;
}

PythonLiteral::Step PythonLiteral::in_code(char c) {
  const size_t most = code_kind_ == 'x' ? 2 : code_kind_ == 'u' ? 4 : code_kind_ == 'U' ? 8 : 3;
  const bool is_octal = code_kind_ == '0';
  if (is_octal ? c >= '0' && c <= '7' : is_hex_digit(c)) {
    digits_ += c;
    if (digits_.size() == most) end_code();
    return Step::kMore;
  }
  if (is_octal) {
    end_code();
  } else {  // Python does not allow this. The text stays as it is.
    emit_text(std::string("\\") + code_kind_ + digits_);
    state_ = State::kString;
  }
  return in_string(c);
}

void PythonLiteral::end_code() {
  uint32_t code = 0;
  std::from_chars(digits_.data(), digits_.data() + digits_.size(), code,
                  code_kind_ == '0' ? 8 : 16);
  emit_code_point(code);
  state_ = State::kString;
}

// Adds a byte after a quote that may end the string.
PythonLiteral::Step PythonLiteral::closing(char c) {
  if (triple_) {
    if (c == quote_ && held_.size() == 2) {
      end_string();
      return end_value();
    }
    if (c == quote_) {
      held_ += c;
      return Step::kMore;
    }
  } else if (is_call_space(c)) {
    held_ += c;
    return Step::kMore;
  } else if (is_terminator(c)) {
    end_string();
    return end_before(c);
  } else if ((c == '"' || c == '\'') && (c != quote_ || held_.size() > 1)) {
    // Two strings in a row are one.
    quote_ = c;
    quotes_ = 1;
    is_raw_ = false;
    state_ = State::kOpening;
    return Step::kMore;
  }
  emit_text(held_);
  state_ = State::kString;
  return in_string(c);
}

void PythonLiteral::end_string() {
  if (std::exchange(high_surrogate_, 0) != 0) emit("\\ufffd");
  emit("\"");
}

PythonLiteral::Step PythonLiteral::in_word(char c) {
  if (is_terminator(c)) return end_word(c);
  if ((c == '"' || c == '\'') && is_string_prefix(word_)) {
    emit("\"");
    is_raw_ = word_.find_first_of("rR") != std::string::npos;
    quote_ = c;
    quotes_ = 1;
    state_ = State::kOpening;
    return Step::kMore;
  }
  if (std::string_view("()[]{}").find(c) != std::string_view::npos) return Step::kInvalid;
  word_ += c;
  return word_.size() > kMostWordBytes ? Step::kInvalid : Step::kMore;
}

PythonLiteral::Step PythonLiteral::end_word(char c) {
  while (is_call_space(word_.back())) word_.pop_back();
  const std::string json = word_json(word_);
  const bool needs_quotes = in_key() && json.front() != '"';
  emit(needs_quotes ? "\"" + json + "\"" : json);
  return end_before(c);
}

PythonLiteral::Step PythonLiteral::in_mark(char c) {
  held_ += c;
  if (!quote_mark_.starts_with(held_)) return Step::kInvalid;
  if (held_.size() < quote_mark_.size()) return Step::kMore;
  held_.clear();
  emit("\"");
  state_ = State::kMarked;
  return Step::kMore;
}

PythonLiteral::Step PythonLiteral::in_marked(char c) {
  held_ += c;
  while (!quote_mark_.starts_with(held_)) {
    emit_text(std::string_view(held_).substr(0, 1));
    held_.erase(0, 1);
  }
  if (held_.size() < quote_mark_.size()) return Step::kMore;
  end_string();
  return end_value();
}

void PythonLiteral::emit(std::string_view json) { json_ += json; }

void PythonLiteral::emit_text(std::string_view text) {
  if (std::exchange(high_surrogate_, 0) != 0) emit("\\ufffd");
  emit(escaped(text));
}

// Writes a character. Halves of surrogate pairs that stand alone become U+FFFD.
void PythonLiteral::emit_code_point(uint32_t code) {
  if (code >= 0xDC00 && code < 0xE000 && high_surrogate_ != 0)
    code = 0x10000 + ((std::exchange(high_surrogate_, 0) - 0xD800) << 10) + (code - 0xDC00);
  if (code >= 0xD800 && code < 0xDC00) {
    if (high_surrogate_ != 0) emit("\\ufffd");
    high_surrogate_ = code;
    return;
  }
  std::string character;
  const bool is_invalid = (code >= 0xDC00 && code < 0xE000) || code > 0x10FFFF;
  text::append_utf8(is_invalid ? 0xFFFD : code, character);
  emit_text(character);
}

std::optional<std::string> python_to_json(std::string_view text) {
  using Step = PythonLiteral::Step;
  PythonLiteral literal;
  std::string json;
  for (size_t i = 0; i < text.size(); ++i) {
    const Step step = literal.push(text[i], json);
    if (step == Step::kMore) continue;
    const bool ends = step == Step::kEnd && text.find_first_not_of(" \n\t\r", i + 1) == text.npos;
    return ends ? std::optional(json) : std::nullopt;
  }
  return literal.push(',', json) == Step::kEndBefore ? std::optional(json) : std::nullopt;
}

}  // namespace neuronmm::serve
