#include "serve/schema/json_syntax.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "serve/grammar/utf8_edges.h"
#include "serve/schema/number_language.h"

namespace neuronmm::grammar {
namespace {

constexpr char32_t kFirstPlain = 0x20;  // smaller ones are control characters

// Returns the letter after the backslash of a character's short escape, or nothing if the character
// has none.
std::optional<char> short_escape(char32_t character) {
  switch (character) {
    case '"':
      return '"';
    case '\\':
      return '\\';
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return {};
  }
}

void add_hexadecimal(Grammar& grammar, PositionId from, std::string_view digits, PositionId to) {
  for (const char digit : digits) {
    const auto byte = static_cast<uint8_t>(digit);
    grammar.add_bytes(from, byte, byte, to);
  }
}

constexpr std::string_view kAnyDigit = "0123456789abcdefABCDEF";

// Adds edges that read one character. Escapes that begin at the same position share their first
// bytes.
class CharacterEdges {
 public:
  CharacterEdges(Grammar& grammar, bool in_string)
      : grammar_(grammar), utf8_(grammar), in_string_(in_string) {}

  void add(PositionId from, CharacterRange range, PositionId to) {
    if (!in_string_) return utf8_.add(from, range, to);
    char32_t first = range.first;
    for (char32_t c = first; c <= std::min<char32_t>(range.last, '\\'); ++c) {
      if (c >= kFirstPlain && !short_escape(c)) continue;
      if (first < c) utf8_.add(from, {first, c - 1}, to);
      first = c + 1;
      add_escaped(from, c, to);
    }
    if (first <= range.last) utf8_.add(from, {first, range.last}, to);
  }

 private:
  void add_escaped(PositionId from, char32_t character, PositionId to) {
    const PositionId backslash = step(from, '\\');
    if (const auto letter = short_escape(character)) {
      const auto byte = static_cast<uint8_t>(*letter);
      return grammar_.add_bytes(backslash, byte, byte, to);
    }
    PositionId at = backslash;
    for (const char c : {'u', '0', '0', character < 0x10 ? '0' : '1'}) at = step(at, c);
    const std::string digit = fmt::format("{:x}", character & 0xF);
    add_hexadecimal(grammar_, at, digit, to);
    if (digit[0] >= 'a') add_hexadecimal(grammar_, at, fmt::format("{:X}", character & 0xF), to);
  }

  PositionId step(PositionId from, char c) {
    const auto [found, is_new] = escapes_.try_emplace({from, c}, -1);
    if (is_new) {
      found->second = grammar_.add_position();
      grammar_.add_bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), found->second);
    }
    return found->second;
  }

  Grammar& grammar_;
  Utf8Edges utf8_;
  const bool in_string_;
  std::map<std::pair<PositionId, char>, PositionId> escapes_;
};

// Returns whether the set is read by so few edges that calling a rule instead would save nothing.
bool is_short(const std::vector<CharacterRange>& set) {
  constexpr size_t kFew = 3;
  const auto is_plain = [](const CharacterRange& range) {
    return range.first >= kFirstPlain && range.last < 0x80;
  };
  const bool is_one = set.size() == 1 && set[0].first == set[0].last;
  return is_one || (set.size() <= kFew && std::ranges::all_of(set, is_plain));
}

bool is_all(const std::vector<CharacterRange>& ranges) {
  return CharacterSet::of(ranges).ranges() == CharacterSet::all().ranges();
}

// The memory of a rule for a set of characters in the table of these rules, without the ranges, in
// bytes. Assumed.
constexpr int64_t kSetBytes = 120;

// Adds a position for each state of a language and edges for its edges. `rule_of` returns a rule
// that reads a character of a set. If it is empty, the edges contain no calls.
class LanguageEdges {
 public:
  using RuleOf = std::function<RuleId(const std::vector<CharacterRange>& set)>;
  LanguageEdges(Grammar& grammar, Budget& budget, const StringLanguage& language, bool in_string,
                RuleOf rule_of)
      : grammar_(grammar),
        budget_(budget),
        characters_(grammar, in_string),
        language_(language),
        rule_of_(std::move(rule_of)) {}

  void add(PositionId from, PositionId to) {
    positions_.assign(language_.states().size(), -1);
    std::vector<int32_t> queue = {0};
    positions_[0] = grammar_.add_position();
    grammar_.add_empty(from, positions_[0]);
    while (!queue.empty() && !grammar_.too_large()) {
      const int32_t id = queue.back();
      queue.pop_back();
      const StringLanguage::State& state = language_.states()[static_cast<size_t>(id)];
      const PositionId at = positions_[static_cast<size_t>(id)];
      if (state.accepting) grammar_.add_empty(at, to);
      if (!budget_.spend(kStepsPerState + kStepsPerRange * std::ssize(state.edges))) return;
      std::map<PositionId, std::vector<CharacterRange>> sets;  // by the target position
      for (const StringLanguage::Edge& edge : state.edges) {
        PositionId& target = positions_[static_cast<size_t>(edge.target)];
        if (target < 0) {
          target = grammar_.add_position();
          queue.push_back(edge.target);
        }
        sets[target].push_back(edge.range);
      }
      for (const auto& [target, set] : sets) add_set(at, set, target);
    }
  }

 private:
  void add_set(PositionId from, const std::vector<CharacterRange>& set, PositionId to) {
    if (rule_of_ && !is_short(set)) return grammar_.add_call(from, rule_of_(set), to);
    for (const CharacterRange range : set) characters_.add(from, range, to);
  }

  static constexpr int64_t kStepsPerState = 10, kStepsPerRange = 10;  // of the budget. Assumed

  Grammar& grammar_;
  Budget& budget_;
  CharacterEdges characters_;
  const StringLanguage& language_;
  const RuleOf rule_of_;
  std::vector<PositionId> positions_;  // by state, -1 for those that were not reached yet
};

}  // namespace

std::string json_text_of(std::string_view utf8) {
  std::string text = "\"";
  for (const char c : utf8) {
    const auto byte = static_cast<uint8_t>(c);
    if (const auto letter = short_escape(byte)) {
      text += {'\\', *letter};
    } else if (byte < kFirstPlain) {
      text += fmt::format("\\u{:04x}", byte);
    } else {
      text += c;
    }
  }
  return text + '"';
}

RuleId JsonSyntax::white_space() {
  if (white_space_) return *white_space_;
  white_space_ = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(*white_space_);
  grammar_.add_text(start, " ", end);
  PositionId at = position();
  grammar_.add_text(start, "\n", at);
  for (int i = 0; i < kMaxIndentation; ++i) {
    grammar_.add_empty(at, end);
    const PositionId next = position();
    grammar_.add_text(at, " ", next);
    at = next;
  }
  grammar_.add_empty(at, end);
  return *white_space_;
}

void JsonSyntax::add_white_space(PositionId from, PositionId to) {
  grammar_.add_empty(from, to);
  grammar_.add_call(from, white_space(), to);
}

void JsonSyntax::add_comma(PositionId from, PositionId to) {
  const PositionId comma = position();
  grammar_.add_text(from, ",", comma);
  add_white_space(comma, to);
}

void JsonSyntax::add_colon(PositionId from, PositionId to) {
  const PositionId colon = position();
  grammar_.add_text(from, ":", colon);
  grammar_.add_empty(colon, to);
  grammar_.add_text(colon, " ", to);
}

RuleId JsonSyntax::character() {
  if (character_) return *character_;
  character_ = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(*character_);
  Utf8Edges utf8(grammar_);
  utf8.add(start, {kFirstPlain, '"' - 1}, end);
  utf8.add(start, {'"' + 1, '\\' - 1}, end);
  utf8.add(start, {'\\' + 1, kLastCharacter}, end);
  add_escapes(start, end);
  grammar_.set_character(*character_);
  return *character_;
}

// Adds the escapes of any character. The hexadecimal digits are restricted so that half of a
// surrogate pair is never read alone.
void JsonSyntax::add_escapes(PositionId from, PositionId to) {
  const PositionId backslash = position(), unicode = position(), high = position();
  const PositionId three = position(), two = position(), one = position();
  const PositionId high_two = position(), high_one = position(), low = position();
  grammar_.add_text(from, "\\", backslash);
  add_hexadecimal(grammar_, backslash, "\"\\/bfnrt", to);
  grammar_.add_text(backslash, "u", unicode);
  add_hexadecimal(grammar_, unicode, "0123456789abcABCefEF", three);
  add_hexadecimal(grammar_, three, kAnyDigit, two);
  add_hexadecimal(grammar_, two, kAnyDigit, one);
  add_hexadecimal(grammar_, one, kAnyDigit, to);
  add_hexadecimal(grammar_, unicode, "dD", high);
  add_hexadecimal(grammar_, high, "01234567", two);
  add_hexadecimal(grammar_, high, "89abAB", high_two);
  add_hexadecimal(grammar_, high_two, kAnyDigit, high_one);
  const PositionId pair = position(), pair_u = position(), pair_d = position();
  add_hexadecimal(grammar_, high_one, kAnyDigit, pair);
  grammar_.add_text(pair, "\\", pair_u);
  grammar_.add_text(pair_u, "u", pair_d);
  add_hexadecimal(grammar_, pair_d, "dD", low);
  add_hexadecimal(grammar_, low, "cdefCDEF", two);
}

RuleId JsonSyntax::string() {
  if (string_) return *string_;
  string_ = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(*string_);
  const PositionId inside = position();
  grammar_.add_text(start, "\"", inside);
  grammar_.add_call(inside, character(), inside);
  grammar_.add_text(inside, "\"", end);
  return *string_;
}

// Every character is a call of the same rule, so each step of the count costs only one position.
RuleId JsonSyntax::counted_string(int64_t minimum, std::optional<int64_t> maximum) {
  if (minimum == 0 && !maximum) return string();
  const auto [found, is_new] = counted_.try_emplace({minimum, maximum}, -1);
  if (!is_new) return found->second;
  found->second = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(found->second);
  PositionId at = position();
  grammar_.add_text(start, "\"", at);
  const int64_t last = maximum.value_or(minimum);
  for (int64_t i = 0; i < last && !grammar_.too_large(); ++i) {
    if (i >= minimum) grammar_.add_text(at, "\"", end);
    const PositionId next = position();
    grammar_.add_call(at, character(), next);
    at = next;
  }
  grammar_.add_text(at, "\"", end);
  if (!maximum) grammar_.add_call(at, character(), at);
  return found->second;
}

RuleId JsonSyntax::character_of(const std::vector<CharacterRange>& set, bool in_string) {
  if (in_string && is_all(set)) return character();
  std::vector<std::pair<char32_t, char32_t>> key;
  for (const CharacterRange range : set) key.emplace_back(range.first, range.last);
  const auto [found, is_new] = sets_.try_emplace({std::move(key), in_string}, -1);
  if (!is_new) return found->second;
  budget_.allocate(kSetBytes + std::ssize(set) * static_cast<int64_t>(sizeof(set[0])));
  found->second = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(found->second);
  CharacterEdges edges(grammar_, in_string);
  for (const CharacterRange range : set) edges.add(start, range, end);
  return found->second;
}

std::vector<PositionId> JsonSyntax::whole_digits(PositionId start, PositionId minus) {
  std::vector<PositionId> after(kMostWhole);
  for (PositionId& at : after) at = position();
  for (const PositionId from : {start, minus}) grammar_.add_bytes(from, '1', '9', after[0]);
  for (size_t i = 1; i < after.size(); ++i) grammar_.add_bytes(after[i - 1], '0', '9', after[i]);
  return after;
}

void JsonSyntax::add_digits(PositionId from, int most, int least, PositionId to) {
  PositionId at = from;
  for (int i = 0; i < most; ++i) {
    if (i >= least) grammar_.add_empty(at, to);
    const PositionId next = position();
    grammar_.add_bytes(at, '0', '9', next);
    at = next;
  }
  grammar_.add_empty(at, to);
}

RuleId JsonSyntax::integer() {
  if (integer_) return *integer_;
  integer_ = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(*integer_);
  const PositionId minus = position();
  grammar_.add_text(start, "0", end);
  grammar_.add_text(start, "-", minus);
  for (const PositionId after : whole_digits(start, minus)) grammar_.add_empty(after, end);
  return *integer_;
}

RuleId JsonSyntax::number() {
  if (number_) return *number_;
  number_ = grammar_.add_rule();
  const auto [start, end] = grammar_.rule(*number_);
  const PositionId minus = position(), zero = position(), mantissa = position();
  grammar_.add_text(start, "-", minus);
  for (const PositionId from : {start, minus}) grammar_.add_text(from, "0", zero);
  grammar_.add_empty(zero, mantissa);
  const std::vector<PositionId> whole = whole_digits(start, minus);
  for (size_t i = 0; i < whole.size(); ++i) {
    const PositionId point = position();
    grammar_.add_empty(whole[i], mantissa);
    grammar_.add_text(whole[i], ".", point);
    add_digits(point, std::max(kMostSignificant - static_cast<int>(i) - 1, 1), 1, mantissa);
  }
  PositionId zeros = position();
  const PositionId first = position();
  add_digits(first, kMostSignificant - 1, 0, mantissa);
  grammar_.add_text(zero, ".", zeros);
  for (int i = 0; i < kMostSignificant; ++i) {
    const PositionId next = position();
    grammar_.add_bytes(zeros, '1', '9', first);
    grammar_.add_text(zeros, "0", next);
    grammar_.add_empty(next, mantissa);
    zeros = next;
  }
  const PositionId exponent = position(), sign = position();
  grammar_.add_empty(mantissa, end);
  add_hexadecimal(grammar_, mantissa, "eE", exponent);
  add_hexadecimal(grammar_, exponent, "+-", sign);
  grammar_.add_empty(exponent, sign);
  add_digits(sign, 2, 1, end);
  return *number_;
}

RuleId JsonSyntax::value() {
  if (value_) return *value_;
  value_ = grammar_.add_rule();
  add_value(*value_);
  return *value_;
}

void JsonSyntax::add_value(RuleId rule) {
  const auto [start, end] = grammar_.rule(rule);
  for (const char* word : {"null", "true", "false"}) grammar_.add_text(start, word, end);
  grammar_.add_call(start, string(), end);
  grammar_.add_call(start, number(), end);
  for (const bool is_object : {false, true}) {
    const PositionId open = position(), item = position(), after = position(), close = position();
    grammar_.add_text(start, is_object ? "{" : "[", open);
    grammar_.add_text(open, is_object ? "}" : "]", end);
    add_white_space(open, item);
    PositionId at = item;
    if (is_object) {
      const PositionId key = position();
      at = position();
      grammar_.add_call(item, string(), key);
      add_colon(key, at);
    }
    grammar_.add_call(at, rule, after);
    add_comma(after, item);
    add_white_space(after, close);
    grammar_.add_text(close, is_object ? "}" : "]", end);
  }
}

void JsonSyntax::add_string(PositionId from, std::string_view utf8, PositionId to) {
  grammar_.add_text(from, json_text_of(utf8), to);
}

void JsonSyntax::add_string_of(PositionId from, const StringLanguage& language, PositionId to) {
  const PositionId begin = position(), end = position();
  grammar_.add_text(from, "\"", begin);
  LanguageEdges(grammar_, budget_, language, true, [this](const auto& set) {
    return character_of(set, true);
  }).add(begin, end);
  grammar_.add_text(end, "\"", to);
}

void JsonSyntax::add_string_without_calls(PositionId from, const StringLanguage& language,
                                          PositionId to) {
  const PositionId begin = position(), end = position();
  grammar_.add_text(from, "\"", begin);
  LanguageEdges(grammar_, budget_, language, true, {}).add(begin, end);
  grammar_.add_text(end, "\"", to);
}

void JsonSyntax::add_text_of(PositionId from, const StringLanguage& language, PositionId to) {
  LanguageEdges(grammar_, budget_, language, false, [this](const auto& set) {
    return character_of(set, false);
  }).add(from, to);
}

}  // namespace neuronmm::grammar
