#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/literal.h"
#include "text/jinja/number.h"
#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

using Kind = Token::Kind;

// Returns the source with "\n" at every line end. A line end at the end of the source is removed.
std::string normalize_lines(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

size_t space_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_space(decode(text, at).value)) at += decode(text, at).length;
  return at;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const CodePoint last = decode_before(text, text.size());
    if (!is_space(last.value)) break;
    text.remove_suffix(last.length);
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : storage_(std::move(source)), source_(storage_) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) {
      NMM_TRY(read_data());
    }
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view remaining() const { return source_.substr(at_); }

  void advance(size_t bytes) {
    for (const char c : source_.substr(at_, bytes)) {
      position_.column = c == '\n' ? 1 : position_.column + 1;
      position_.line += c == '\n';
    }
    at_ += bytes;
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), position_}); }

  Error error(std::string_view message) const {
    return fail("{}:{}: {}", position_.line, position_.column, message);
  }

  // Returns what the white space control keeps of `text`, which stands before a tag with this sign.
  std::string_view stripped(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return strip_right(text);
    if (sign == '+' || variable) return text;
    const size_t line = text.rfind('\n') + 1;
    const bool starts_line = line > 0 || line_starting_;
    return starts_line && strip_right(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // Returns the length of the tag {% raw %} at the start of the text, or 0 if there is none.
  static size_t raw_tag_length(std::string_view text) {
    if (!text.starts_with("{%")) return 0;
    size_t at = 2 + (text.size() > 2 && (text[2] == '-' || text[2] == '+'));
    at += space_length(text.substr(at));
    if (!text.substr(at).starts_with("raw")) return 0;
    at += 3;
    at += space_length(text.substr(at));
    if (text.substr(at).starts_with("%}")) return at + 2;
    if (!text.substr(at).starts_with("-%}")) return 0;
    return at + 3 + space_length(text.substr(at + 3));
  }

  // Returns the length of the end of a block or comment, including the white space that it removes.
  // Returns 0 if no end is at the start of the text.
  static size_t end_length(std::string_view text, std::string_view end) {
    if (text.starts_with(end)) return end.size() + text.substr(end.size()).starts_with('\n');
    if (text.empty() || text.substr(1, end.size()) != end) return 0;
    if (text[0] == '+') return 1 + end.size();
    return text[0] == '-' ? 1 + end.size() + space_length(text.substr(1 + end.size())) : 0;
  }

  // Reads text up to the next tag, and then that tag.
  Status read_data() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 == source_.size()) {
        tag = source_.size();
        break;
      }
      if (std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos) break;
      ++tag;
    }
    if (tag == source_.size()) {
      add(Kind::kData, std::string(remaining()));
      advance(source_.size() - at_);
      return {};
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const std::string_view text = stripped(source_.substr(at_, tag - at_), sign, kind == '{');
    if (!text.empty()) add(Kind::kData, std::string(text));
    advance(tag - at_);
    if (const size_t raw = raw_tag_length(remaining())) return read_raw(raw);
    if (kind == '#') return read_comment();
    add(kind == '{' ? Kind::kVariableBegin : Kind::kBlockBegin, "");
    advance(sign == '-' || sign == '+' ? 3 : 2);
    return read_tag(kind == '{');
  }

  Status read_comment() {
    const size_t signs =
        at_ + 2 < source_.size() && (source_[at_ + 2] == '-' || source_[at_ + 2] == '+');
    for (size_t at = at_ + 2 + signs; at < source_.size(); ++at) {
      if (const size_t end = end_length(source_.substr(at), "#}")) {
        advance(at + end - at_);
        return {};
      }
    }
    return error("expected the end of this comment, #}, found the end of the template");
  }

  // Returns the length of the tag {% endraw %} at the start of the text, or 0 if there is none.
  static size_t endraw_length(std::string_view text) {
    if (!text.starts_with("{%")) return 0;
    size_t at = 2 + (text.size() > 2 && (text[2] == '-' || text[2] == '+'));
    at += space_length(text.substr(at));
    if (!text.substr(at).starts_with("endraw")) return 0;
    at += 6;
    at += space_length(text.substr(at));
    const size_t end = end_length(text.substr(at), "%}");
    return end == 0 ? 0 : at + end;
  }

  Status read_raw(size_t begin_length) {
    const Error unfinished = error("expected {% endraw %}, found the end of the template");
    advance(begin_length);
    for (size_t at = at_; at < source_.size(); ++at) {
      const size_t length = endraw_length(source_.substr(at));
      if (length == 0) continue;
      const char sign = source_[at + 2];
      const std::string_view text = stripped(source_.substr(at_, at - at_), sign, false);
      if (!text.empty()) add(Kind::kData, std::string(text));
      advance(at + length - at_);
      return {};
    }
    return unfinished;
  }

  // Reads the tokens of a tag up to its end.
  Status read_tag(bool variable) {
    while (at_ < source_.size()) {
      if (open_.empty()) {
        if (const size_t end = variable ? variable_end_length() : end_length(remaining(), "%}")) {
          add(variable ? Kind::kVariableEnd : Kind::kBlockEnd, "");
          advance(end);
          return {};
        }
      }
      NMM_TRY(read_token());
    }
    return {};  // The parser reports what is missing.
  }

  size_t variable_end_length() const {
    if (remaining().starts_with("}}")) return 2;
    return remaining().starts_with("-}}") ? 3 + space_length(remaining().substr(3)) : 0;
  }

  Status read_token() {
    if (const size_t space = space_length(remaining())) {
      advance(space);
      return {};
    }
    const char c = source_[at_];
    if (c >= '0' && c <= '9') return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    if (is_word(decode(source_, at_).value)) return read_name();
    return read_operator();
  }

  Status read_number() {
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (const size_t length = float_length(remaining(), after_dot)) {
      std::string digits(remaining().substr(0, length));
      std::erase(digits, '_');
      add(Kind::kFloat, digits);
      tokens_.back().real = parse_float(digits).value_or(0.0);
      advance(length);
      return {};
    }
    const size_t length = integer_length(remaining());
    add(Kind::kInteger, std::string(remaining().substr(0, length)));
    const auto value = parse_integer(tokens_.back().text, 0);
    if (!value.ok() || !*value)
      return error(fmt::format("expected an integer of 64 bits, found {}", tokens_.back().text));
    tokens_.back().integer = **value;
    advance(length);
    return {};
  }

  Status read_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      return error("expected the end of a string, found the end of the template");
    const auto text = unescape(source_.substr(at_ + 1, end - at_ - 1));
    if (!text.ok()) return error(text.error().message);
    add(Kind::kString, *text);
    advance(end + 1 - at_);
    return {};
  }

  Status read_name() {
    size_t end = at_;
    bool identifier = is_identifier_start(decode(source_, at_).value);
    while (end < source_.size()) {
      const CodePoint c = decode(source_, end);
      if (!is_word(c.value) && !is_identifier_part(c.value)) break;
      identifier = identifier && is_identifier_part(c.value);
      end += c.length;
    }
    if (!identifier) return error("invalid character in an identifier");
    add(Kind::kName, std::string(source_.substr(at_, end - at_)));
    advance(end - at_);
    return {};
  }

  Status read_operator() {
    constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    size_t length = 1;
    if (std::ranges::find(kPairs, remaining().substr(0, 2)) != kPairs.end())
      length = 2;
    else if (kSingle.find(source_[at_]) == std::string_view::npos)
      return error(fmt::format("unexpected character '{}'",
                               remaining().substr(0, decode(source_, at_).length)));
    const std::string_view text = remaining().substr(0, length);
    NMM_TRY(balance(text[0]));
    add(Kind::kOperator, std::string(text));
    advance(length);
    return {};
  }

  // Keeps track of brackets, inside which "}}" and "%}" do not end a tag.
  Status balance(char c) {
    constexpr std::string_view kOpening = "{([", kClosing = "})]";
    if (const size_t kind = kOpening.find(c); kind != std::string_view::npos) {
      open_ += kClosing[kind];
    } else if (kClosing.find(c) != std::string_view::npos) {
      if (open_.empty()) return error(fmt::format("unexpected '{}'", c));
      if (open_.back() != c)
        return error(fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
      open_.pop_back();
    }
    return {};
  }

  std::string storage_;
  std::string_view source_;
  size_t at_ = 0;
  SourcePosition position_;
  bool line_starting_ = true;
  std::string open_;  // The closing brackets that are expected.
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize_lines(source)).run();
}

}  // namespace neuronmm::text::jinja
