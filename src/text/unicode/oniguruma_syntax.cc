#include "text/unicode/oniguruma_syntax.h"

namespace neuronmm::text {
namespace {

// Letters whose escapes mean the same in both syntaxes, inside and outside of a class.
constexpr std::string_view kSharedEscapes = "pPdDnrtfve";
// Letters whose escapes mean the same in both syntaxes, but only outside of a class.
constexpr std::string_view kSharedAnchors = "Az";
// Oniguruma's word characters. Outside of classes, six numbers of Latin-1 are word characters, too.
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kWordNumbers = "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  Result<std::string> translate() {
    while (!rest_.empty()) {
      NMM_TRY(rest_.front() == '\\' ? escape() : class_depth_ > 0 ? in_class() : outside());
    }
    return std::move(out_);
  }

 private:
  char at(size_t i) const { return i < rest_.size() ? rest_[i] : '\0'; }
  Status write(std::string_view text, size_t read) {
    out_ += text;
    rest_.remove_prefix(read);
    return {};
  }
  Status copy(size_t count) {
    const std::string_view text = rest_.substr(0, count);
    return write(text, text.size());
  }

  // Returns the length of an escape, including the braces of one like "\p{L}".
  size_t escape_length() const {
    const size_t end = at(2) == '{' ? rest_.find('}') : std::string_view::npos;
    return end == std::string_view::npos ? 2 : end + 1;
  }

  Status escape() {
    const char c = at(1);
    const bool in_class = class_depth_ > 0;
    // Oniguruma's \s is the White_Space property; PCRE2's \s also has U+180E.
    if (c == 's') return write("\\p{White_Space}", 2);
    if (c == 'S') return write("\\P{White_Space}", 2);
    if (c == 'w' && in_class) return write(kWord, 2);
    if (c == 'w') return write(fmt::format("[{}{}]", kWord, kWordNumbers), 2);
    if (c == 'W' && !in_class) return write(fmt::format("[^{}{}]", kWord, kWordNumbers), 2);
    if (c == 'u' && rest_.size() >= 6 && is_hex(at(2)) && is_hex(at(3)) && is_hex(at(4)) &&
        is_hex(at(5)))
      return write(fmt::format("\\x{{{}}}", rest_.substr(2, 4)), 6);
    // "\x" with two digits is a byte for Oniguruma and a character for PCRE2. The two agree for
    // ASCII only.
    const bool is_ascii_code = at(2) >= '0' && at(2) <= '7' && is_hex(at(3));
    if (c == 'x' && (at(2) == '{' || is_ascii_code)) return copy(escape_length());
    const bool shared = kSharedEscapes.find(c) != std::string_view::npos ||
                        (!in_class && kSharedAnchors.find(c) != std::string_view::npos);
    // An escaped letter or digit has a meaning, which the two libraries may not share. An escaped
    // sign means itself in both.
    if ((is_letter(c) || is_digit(c)) && !shared)
      return fail("the escape \\{}{} is not supported", c, in_class ? " inside a class" : "");
    return copy(c == 'p' || c == 'P' ? escape_length() : 2);
  }

  // Classes of Oniguruma may contain classes. A nested class that only adds characters is written
  // into the outer one.
  Status in_class() {
    const char c = at(0);
    if (c == '[') {
      if (at(1) == ':' || at(1) == '^' || out_.back() == '-')
        return fail("a class inside a class ('[{}') is not supported", at(1));
      ++class_depth_;
      return write("", 1);
    }
    if (c == ']') {
      if (--class_depth_ == 0) return copy(1);
      if (at(1) == '-') return fail("a class inside a class (']-') is not supported");
      return write("", 1);
    }
    if (c == '&' && at(1) == '&') return fail("class intersection (&&) is not supported");
    return copy(1);
  }

  Status outside() {
    const char c = at(0);
    if (c == '[') {
      class_depth_ = 1;
      // A "]" at the start of a class is a character.
      const size_t start = at(1) == '^' ? 2 : 1;
      return copy(at(start) == ']' ? start + 1 : start);
    }
    if (c == '(' && at(1) == '*') return fail("'(*' is not supported");
    if (c == '(' && at(1) == '?') return options();
    if (c == '{') return interval();
    return copy(1);
  }

  // Refuses options such as "(?m", which lets "." match newlines in Ruby's syntax but changes ^ and
  // $ in PCRE2's.
  Status options() {
    for (size_t i = 2; is_letter(at(i)) || at(i) == '-'; ++i) {
      if (at(i) != 'i' && at(i) != 'x' && at(i) != '-')
        return fail("the option (?{}) is not supported", at(i));
    }
    return copy(2);
  }

  // Translates intervals. Ruby has {,n}, which becomes {0,n}. In Ruby, "+" after an interval
  // repeats the interval, whereas PCRE2 takes it for a possessive quantifier.
  Status interval() {
    size_t i = 1;
    while (is_digit(at(i))) ++i;
    const std::string_view least = rest_.substr(1, i - 1);
    const bool has_comma = at(i) == ',';
    const size_t most_at = has_comma ? ++i : i;
    while (is_digit(at(i))) ++i;
    const std::string_view most = rest_.substr(most_at, i - most_at);
    if (at(i) != '}' || (least.empty() && most.empty())) return copy(1);
    const std::string from(least.empty() ? "0" : least);
    if (at(i + 1) == '+') {
      if (from != "0" && from != "1")
        return fail("'+' behind {} is not supported", rest_.substr(0, i + 1));
      return write(from == "0" ? "*" : "+", i + 2);
    }
    if (!least.empty()) return copy(i + 1);
    return write(fmt::format("{{0,{}}}", most), i + 1);
  }

  std::string_view rest_;
  std::string out_;
  int class_depth_ = 0;
};

}  // namespace

Result<std::string> translate_from_oniguruma(std::string_view pattern) {
  return Translator(pattern).translate();
}

}  // namespace neuronmm::text
