#include "eval/tolerance_map.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace neuronmm::eval {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// A recursive-descent parser for this grammar:
//   map: '{' entry {',' entry} [','] '}'   entry: key ':' pair   pair: '(' x ',' x [','] ')', or []
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<ToleranceMap> map() {
    ToleranceMap tolerances;
    if (!take('{')) return expected("'{'");
    do {
      if (!tolerances.empty() && peek() == '}') break;  // a comma may follow the last entry
      NMM_ASSIGN(Tolerance tolerance, entry());
      // Two tolerances for the same k would contradict each other, so they are an error.
      for (const Tolerance& earlier : tolerances) {
        if (earlier.top_k != tolerance.top_k) continue;
        return fail("{} appears twice",
                    tolerance.top_k ? std::to_string(*tolerance.top_k) : "None");
      }
      tolerances.push_back(tolerance);
    } while (take(','));
    if (!take('}')) return expected("',' or '}'");
    if (peek() != '\0') return expected("the end");
    return tolerances;
  }

 private:
  // Reads a pair in parentheses (Python) or brackets (JSON).
  Result<Tolerance> entry() {
    Tolerance tolerance;
    NMM_ASSIGN(tolerance.top_k, key());
    if (!take(':')) return expected("':'");
    const char close = peek() == '[' ? ']' : ')';
    if (!take('(') && !take('[')) return expected("a pair (absolute, relative)");
    NMM_ASSIGN(tolerance.absolute, number());
    if (!take(',')) return expected("','");
    NMM_ASSIGN(tolerance.relative, number());
    take(',');
    if (!take(close)) return expected(std::string("'") + close + "'");
    return tolerance;
  }

  // Reads a key. None or null stands for all logits; JSON's keys are in quotes.
  Result<std::optional<int64_t>> key() {
    const char quote = peek();
    const bool quoted = quote == '"' || quote == '\'';
    if (quoted) ++position_;
    std::optional<int64_t> top_k;
    if (!take_word("None") && !take_word("null")) {
      int64_t k = 0;
      const char* const begin = text_.data() + position_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), k);
      if (error != std::errc() || k < 1) return expected("None or a count of logits >= 1");
      position_ += static_cast<size_t>(end - begin);
      top_k = k;
    }
    if (quoted && (position_ >= text_.size() || text_[position_++] != quote)) {
      position_ = std::min(position_, text_.size());
      return expected("the closing quote");
    }
    return top_k;
  }

  Result<double> number() {
    peek();
    double value = 0.0;
    const char* const begin = text_.data() + position_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    // signbit instead of < 0 also refuses -0: a sign is a typing error here.
    if (error != std::errc() || !std::isfinite(value) || std::signbit(value)) {
      return expected("a number >= 0");
    }
    position_ += static_cast<size_t>(end - begin);
    return value;
  }

  // Skips white space and returns the next character, or 0 at the end.
  char peek() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }
  // Returns an error that shows the place and up to twelve of the characters found there.
  Error expected(std::string_view what) {
    const bool at_end = peek() == '\0' && position_ >= text_.size();
    return fail("expected {} at character {}, found {}", what, position_ + 1,
                at_end ? "the end" : fmt::format("\"{}\"", text_.substr(position_, 12)));
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

Result<ToleranceMap> parse_tolerance_map(std::string_view text) { return Parser(text).map(); }

}  // namespace neuronmm::eval
