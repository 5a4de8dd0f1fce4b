#include "serve/grammar/gbnf_syntax.h"

#include <algorithm>
#include <map>
#include <utility>

#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

// Assumed: grammars that people write stay far below these limits.
constexpr int kMostNesting = 200;          // of parentheses; the parser calls itself for each
constexpr size_t kMostNotes = 8;           // about rules that are defined twice
constexpr int kMostMarks = 4;              // *, +, ? and {m,n} behind one item
constexpr size_t kMostNameBytes = 256;     // of a rule or a token
constexpr int64_t kMostCount = 1'000'000;  // in {m,n}; more would never fit the budget

// The memory of a node with its share of the vector that holds it.
constexpr int64_t kGbnfNodeBytes = 2 * sizeof(GbnfNode);

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name(char c) { return is_letter(c) || is_ascii_digit(c) || c == '-' || c == '_'; }
bool is_line_end(char c) { return c == '\n' || c == '\r'; }

int hex_digit(char c) {
  if (is_ascii_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, Budget& budget) : text_(text), budget_(budget) {}

  Result<GbnfSyntax> run() {
    skip_space(/*line_ends=*/true);
    while (!at_end()) NMM_TRY(parse_rule());
    NMM_TRY(check_definitions());
    return std::move(syntax_);
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool accept(char c) {
    if (at_end() || peek() != c) return false;
    ++at_;
    return true;
  }

  template <typename... Args>
  Error error(fmt::format_string<Args...> format, Args&&... args) const {
    return error_at(line_, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  static Error error_at(int64_t line, fmt::format_string<Args...> format, Args&&... args) {
    return fail("line {}: {}", line, fmt::format(format, std::forward<Args>(args)...));
  }
  // Returns the error "expected WHAT, found ...".
  Error expected(std::string_view what) const {
    if (at_end()) return error("expected {}, found the end of the grammar", what);
    if (is_line_end(peek())) return error("expected {}, found the end of the line", what);
    constexpr size_t kShown = 20;
    const std::string_view rest = text_.substr(at_, kShown);
    const auto whole = static_cast<size_t>(text::valid_utf8_length(rest));
    const std::string_view line = rest.substr(0, rest.find_first_of("\r\n"));
    return error("expected {}, found {:?}", what, line.substr(0, std::max<size_t>(whole, 1)));
  }

  // Skips blanks and comments, and line ends if they do not end the rule.
  void skip_space(bool line_ends) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && !is_line_end(peek())) ++at_;
      } else if (c == ' ' || c == '\t' || (line_ends && is_line_end(c))) {
        if (c == '\n' || (c == '\r' && peek(1) != '\n')) ++line_;
        ++at_;
      } else {
        return;
      }
    }
  }
  // Skips the space behind an item. Within parentheses a rule goes on in the next line. It also
  // does if that line begins with "|", since no rule can begin so.
  void skip_space_in_rule() {
    skip_space(nesting_ > 0);
    if (at_end() || !is_line_end(peek())) return;
    const std::pair here(at_, line_);
    skip_space(true);
    if (peek() != '|') std::tie(at_, line_) = here;
  }

  Result<std::string> parse_name(std::string_view what) {
    const size_t begin = at_;
    while (!at_end() && is_name(peek())) ++at_;
    if (at_ == begin) return expected(what);
    if (at_ - begin > kMostNameBytes)
      return error("expected names of at most {} bytes", kMostNameBytes);
    return std::string(text_.substr(begin, at_ - begin));
  }

  size_t rule_number(const std::string& name) {
    const auto [found, is_new] = numbers_.try_emplace(name, syntax_.rules.size());
    if (is_new) {
      budget_.allocate(2 * static_cast<int64_t>(sizeof(GbnfRule) + name.size()));
      syntax_.rules.push_back({.name = name, .line = line_});
    }
    return found->second;
  }

  Status parse_rule() {
    const int64_t line = line_;
    NMM_ASSIGN(const std::string name, parse_name("the name of a rule"));
    skip_space(false);
    if (text_.substr(at_, 3) != "::=") return expected(fmt::format("::= after {}", name));
    at_ += 3;
    skip_space(true);
    const size_t number = rule_number(name);
    NMM_ASSIGN(GbnfNode body, parse_alternatives());
    if (!at_end() && !is_line_end(peek()))
      return expected("an item of the rule " + name + ", or the end of its line");
    skip_space(true);
    GbnfRule& rule = syntax_.rules[number];
    const bool is_again = std::exchange(rule.defined, true);
    if (is_again && syntax_.notes.size() < kMostNotes)
      syntax_.notes.push_back(
          fmt::format("the rule {} is defined in lines {} and {}, and the later definition counts",
                      name, rule.line, line));
    rule.body = std::move(body);
    rule.line = line;
    return {};
  }

  Result<GbnfNode> parse_alternatives() {
    GbnfNode all{GbnfKind::kAlternatives};
    do {
      if (!all.children.empty()) skip_space(true);
      NMM_ASSIGN(GbnfNode sequence, parse_sequence());
      all.children.push_back(std::move(sequence));
    } while (accept('|'));
    if (all.children.size() > 1) return all;
    GbnfNode only = std::move(all.children.front());
    return only;
  }

  bool item_follows() const {
    return !at_end() &&
           (is_name(peek()) || std::string_view("\"[<!(.*+?{").find(peek()) != std::string::npos);
  }

  bool repeat_follows() const {
    return !at_end() && std::string_view("*+?{").find(peek()) != std::string::npos;
  }

  Result<GbnfNode> parse_sequence() {
    GbnfNode sequence{GbnfKind::kSequence};
    while (item_follows()) {
      if (!budget_.allocate(kGbnfNodeBytes)) return budget_.error();
      NMM_ASSIGN(GbnfNode item, parse_item());
      skip_space_in_rule();
      for (int marks = 1; repeat_follows(); ++marks) {
        if (marks > kMostMarks)
          return error("expected at most {} marks of repetition behind one item", kMostMarks);
        if (!budget_.allocate(kGbnfNodeBytes)) return budget_.error();
        NMM_ASSIGN(item, parse_repeat(std::move(item)));
        skip_space_in_rule();
      }
      sequence.children.push_back(std::move(item));
    }
    return sequence;
  }

  Result<GbnfNode> parse_item() {
    if (is_name(peek())) {
      NMM_ASSIGN(const std::string name, parse_name("a rule"));
      return GbnfNode{.kind = GbnfKind::kRule, .number = rule_number(name)};
    }
    switch (peek()) {
      case '"':
        return parse_text();
      case '[':
        return parse_class();
      case '(':
        return parse_group();
      case '.':
        ++at_;
        return GbnfNode{.kind = GbnfKind::kCharacter, .set = CharacterSet::all()};
      case '<':
      case '!':
        return parse_token();
      default:
        return error("expected an item before {:?}", text_.substr(at_, 1));
    }
  }

  Result<GbnfNode> parse_group() {
    if (nesting_ >= kMostNesting)
      return error("expected at most {} parentheses inside each other", kMostNesting);
    ++at_;
    ++nesting_;
    skip_space(true);
    NMM_ASSIGN(GbnfNode body, parse_alternatives());
    --nesting_;
    if (!accept(')')) return expected("an item or )");
    return body;
  }

  Result<GbnfNode> parse_text() {
    const int64_t line = line_;
    ++at_;
    GbnfNode node{GbnfKind::kText};
    while (!accept('"')) {
      if (at_end()) return error_at(line, "expected \" at the end of the text");
      NMM_ASSIGN(const char32_t character, parse_character());
      text::append_utf8(character, node.text);
    }
    budget_.allocate(std::ssize(node.text));
    return node;
  }

  Result<GbnfNode> parse_class() {
    const int64_t line = line_;
    ++at_;
    const bool negated = accept('^');
    std::vector<CharacterRange> ranges;
    while (!accept(']')) {
      if (at_end()) return error_at(line, "expected ] at the end of the class of characters");
      if (!budget_.allocate(2 * sizeof(CharacterRange))) return budget_.error();
      NMM_ASSIGN(const char32_t first, parse_character());
      char32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && peek(1) != ']') {
        ++at_;
        NMM_ASSIGN(last, parse_character());
      }
      if (last < first) return error("a range of characters ends before its begin");
      ranges.push_back({first, last});
    }
    if (ranges.empty()) return error("expected a character between [ and ]");
    GbnfNode node{GbnfKind::kCharacter};
    node.set = CharacterSet::of(std::move(ranges));
    if (negated) node.set = node.set.complement();
    return node;
  }

  // Reads a character of a text or a class, which may be written as an escape.
  Result<char32_t> parse_character() {
    if (peek() == '\\') return parse_escape();
    const text::Utf8Step step = text::next_utf8(text_.substr(at_));
    if (step.kind != text::Utf8Step::Kind::kCharacter) return error("expected UTF-8");
    if (step.code_point == '\n') ++line_;
    at_ += static_cast<size_t>(step.length);
    return step.code_point;
  }

  Result<char32_t> parse_escape() {
    const char c = peek(1);
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) return parse_code_point(digits);
    constexpr std::string_view kNames = "nrt", kMeanings = "\n\r\t";
    if (const size_t found = kNames.find(c); c != '\0' && found != std::string_view::npos) {
      at_ += 2;
      return static_cast<char32_t>(kMeanings[found]);
    }
    if (c > ' ' && c < '\x7F' && !is_letter(c) && !is_ascii_digit(c)) {
      at_ += 2;
      return static_cast<char32_t>(c);
    }
    return expected(
        "one of the escapes \\n, \\r, \\t, \\xXX, \\uXXXX, \\UXXXXXXXX and \\ before a sign");
  }

  Result<char32_t> parse_code_point(int digits) {
    int64_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = hex_digit(peek(static_cast<size_t>(2 + i)));
      if (digit < 0) return expected(fmt::format("{} hexadecimal digits in the escape", digits));
      value = value * 16 + digit;
    }
    constexpr int64_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
    if (value > static_cast<int64_t>(kLastCharacter) ||
        (value >= kFirstSurrogate && value <= kLastSurrogate))
      return expected("the number of a Unicode character in the escape");
    at_ += static_cast<size_t>(2 + digits);
    return static_cast<char32_t>(value);
  }

  // Reads <[1000]>, <think>, !<[1000]> or !<think>.
  Result<GbnfNode> parse_token() {
    GbnfNode node{GbnfKind::kToken};
    node.negative = accept('!');
    if (peek() != '<') return expected("< after !");
    const size_t begin = at_;
    const std::string_view rest = text_.substr(at_, kMostNameBytes);
    const size_t end = rest.find_first_of(">\r\n");
    if (end == std::string_view::npos || rest[end] != '>')
      return expected("a token such as <think>");
    at_ += end + 1;
    const std::string token(text_.substr(begin, at_ - begin));
    const auto [found, is_new] = tokens_.try_emplace(token, syntax_.tokens.size());
    if (is_new) {
      budget_.allocate(2 * std::ssize(token));
      syntax_.tokens.push_back(token);
    }
    node.number = found->second;
    return node;
  }

  Result<int64_t> parse_count() {
    if (!is_ascii_digit(peek())) return expected("a number");
    int64_t value = 0;
    for (; !at_end() && is_ascii_digit(peek()); ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > kMostCount) return error("expected at most {} repetitions", kMostCount);
    }
    skip_space(nesting_ > 0);
    return value;
  }

  Result<GbnfNode> parse_repeat(GbnfNode item) {
    GbnfNode repeat{GbnfKind::kRepeat};
    const char sign = text_[at_++];
    if (sign == '+') repeat.minimum = 1;
    if (sign == '?') repeat.maximum = 1;
    if (sign == '{') {
      skip_space(nesting_ > 0);
      NMM_ASSIGN(repeat.minimum, parse_count());
      repeat.maximum = repeat.minimum;
      if (accept(',')) {
        repeat.maximum.reset();
        skip_space(nesting_ > 0);
        if (is_ascii_digit(peek())) {
          NMM_ASSIGN(repeat.maximum, parse_count());
        }
      }
      if (!accept('}')) return expected("}");
      if (repeat.maximum && *repeat.maximum < repeat.minimum)
        return error("{{{},{}}} asks for more repetitions than it allows", repeat.minimum,
                     *repeat.maximum);
    }
    repeat.children.push_back(std::move(item));
    return repeat;
  }

  Status check_definitions() const {
    if (syntax_.rules.empty()) return error_at(1, "expected rules such as root ::= \"text\"");
    for (const GbnfRule& rule : syntax_.rules) {
      if (!rule.defined) return error_at(rule.line, "the rule {} is not defined", rule.name);
    }
    return {};
  }

  const std::string_view text_;
  Budget& budget_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int nesting_ = 0;
  GbnfSyntax syntax_;
  std::map<std::string, size_t> numbers_, tokens_;  // by name
};

}  // namespace

Result<GbnfSyntax> parse_gbnf(std::string_view text, Budget& budget) {
  if (!budget.spend(std::ssize(text))) return budget.error();
  return GbnfParser(text, budget).run();
}

}  // namespace neuronmm::grammar
