#include "serve/grammar/pattern_syntax.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "serve/grammar/unicode_property.h"
#include "text/unicode/utf8.h"

namespace neuronmm::grammar {
namespace {

using Kind = PatternNode::Kind;

// Assumed: patterns that people write stay far below these limits.
constexpr int kMaxGroupDepth = 100;               // the parser calls itself for each group
constexpr int kMaxLookaheads = 16;                // compiling one takes as long as a pattern
constexpr int64_t kMaxRepeat = int64_t{1} << 20;  // larger bounds count as this one

const CharacterSet kDigits = {{'0', '9'}};
const CharacterSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharacterSet kSpace = {{0x9, 0xD},       {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                             {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharacterSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

CharacterSet one(char32_t character) { return CharacterSet({{character, character}}); }

PatternNode character_node(CharacterSet set) {
  return {Kind::kCharacter, std::move(set), {}, 0, {}};
}

// A node is charged twice, because a growing vector has room for twice its items.
constexpr int64_t kNodeBytes = 2 * sizeof(PatternNode);

class PatternParser {
 public:
  PatternParser(std::string_view pattern, Budget& budget) : pattern_(pattern), budget_(budget) {}

  Result<PatternNode> run() {
    if (text::valid_utf8_length(pattern_) != std::ssize(pattern_)) return fail("it is not UTF-8");
    NMM_ASSIGN(PatternNode node, alternatives());
    if (!done()) return fail("unmatched ')' at byte {}", at_);
    return node;
  }

 private:
  bool done() const { return at_ == pattern_.size(); }
  char peek() const { return done() ? '\0' : pattern_[at_]; }
  bool is_digit(size_t at) const {
    return at < pattern_.size() && pattern_[at] >= '0' && pattern_[at] <= '9';
  }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_character() {
    const text::Utf8Step step = text::next_utf8(pattern_.substr(at_));
    at_ += static_cast<size_t>(step.length);
    return step.code_point;
  }
  Error unsupported(std::string_view what) const {
    return fail("{} at byte {} is not supported", what, at_);
  }
  // Charges a set, and `bytes` beside it.
  Status charge(int64_t bytes, const CharacterSet& set) {
    if (!budget_.allocate(bytes + set.size() * static_cast<int64_t>(sizeof(CharacterRange))))
      return budget_.error();
    return {};
  }

  Result<PatternNode> alternatives() {
    if (++depth_ > kMaxGroupDepth) return fail("groups nest deeper than {}", kMaxGroupDepth);
    PatternNode node{Kind::kAlternatives, {}, {}, 0, {}};
    do {
      NMM_ASSIGN(PatternNode branch, sequence());
      if (!budget_.allocate(kNodeBytes)) return budget_.error();
      node.children.push_back(std::move(branch));
    } while (take("|"));
    --depth_;
    if (node.children.size() > 1) return node;
    PatternNode only = std::move(node.children.front());
    return only;
  }

  Result<PatternNode> sequence() {
    PatternNode node{Kind::kSequence, {}, {}, 0, {}};
    while (!done() && peek() != '|' && peek() != ')') {
      NMM_ASSIGN(PatternNode item, term());
      NMM_TRY(charge(kNodeBytes, item.set));
      node.children.push_back(std::move(item));
    }
    return node;
  }

  Result<PatternNode> term() {
    if (take("^")) return PatternNode{Kind::kBegin, {}, {}, 0, {}};
    if (take("$")) return PatternNode{Kind::kEnd, {}, {}, 0, {}};
    for (const std::string_view look : {"(?=", "(?!"}) {
      if (pattern_.substr(at_).starts_with(look)) return lookahead(look);
    }
    NMM_ASSIGN(PatternNode item, atom());
    NMM_ASSIGN(const auto repeat, quantifier());
    if (!repeat) return item;
    NMM_ASSIGN(const auto another, quantifier());
    if (another) return fail("nothing to repeat before byte {}", at_);
    PatternNode repeated{Kind::kRepeat, {}, {}, repeat->first, repeat->second};
    repeated.children.push_back(std::move(item));
    return repeated;
  }

  Result<PatternNode> lookahead(std::string_view look) {
    PatternNode node{Kind::kLookahead, {}, {}, 0, {}, look.ends_with('!'), at_};
    at_ += look.size();
    if (++lookaheads_ > kMaxLookaheads) return fail("more than {} lookaheads", kMaxLookaheads);
    NMM_ASSIGN(PatternNode seen, alternatives());
    if (!take(")")) return fail("a group has no ')'");
    NMM_ASSIGN(const auto repeat, quantifier());
    if (repeat) return fail("nothing to repeat before byte {}", at_);
    node.children.push_back(std::move(seen));
    return node;
  }

  using Bounds = std::pair<int64_t, std::optional<int64_t>>;

  Result<std::optional<Bounds>> quantifier() {
    std::optional<Bounds> bounds;
    if (take("*")) {
      bounds = Bounds{0, {}};
    } else if (take("+")) {
      bounds = Bounds{1, {}};
    } else if (take("?")) {
      bounds = Bounds{0, 1};
    } else if (peek() == '{') {
      bounds = counted();
      if (!bounds) return bounds;
      if (bounds->second && *bounds->second < bounds->first)
        return fail("the bounds of the repeat that ends at byte {} are out of order", at_);
    }
    if (bounds) take("?");  // a lazy repeat describes the same language
    return bounds;
  }

  // Reads "{2}", "{2,}" or "{2,5}". Returns nothing and reads nothing if the brace begins anything
  // else, since it is then a literal brace.
  std::optional<Bounds> counted() {
    const size_t begin = at_++;
    const auto minimum = number();
    std::optional<int64_t> maximum = minimum;
    bool closed = minimum.has_value();
    if (closed && take(",")) maximum = number();
    closed = closed && take("}");
    if (closed) return Bounds{*minimum, maximum};
    at_ = begin;
    return {};
  }

  std::optional<int64_t> number() {
    if (peek() < '0' || peek() > '9') return {};
    int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = std::min(value * 10 + (peek() - '0'), kMaxRepeat);
      ++at_;
    }
    return value;
  }

  Result<PatternNode> atom() {
    if (peek() == '*' || peek() == '+' || peek() == '?')
      return fail("nothing to repeat at byte {}", at_);
    if (take(".")) return character_node(kLineEnds.complement());
    if (peek() == '(') return group();
    if (take("[")) return character_class();
    if (take("\\")) return escape();
    return character_node(one(take_character()));
  }

  Result<PatternNode> group() {
    for (const std::string_view look : {"(?<=", "(?<!"}) {
      if (pattern_.substr(at_).starts_with(look)) {
        return unsupported(fmt::format("lookaround {:?}", look));
      }
    }
    ++at_;
    if (take("?")) {
      if (take("<")) {
        const size_t end = pattern_.find('>', at_);
        if (end == std::string_view::npos) return fail("a group's name has no end");
        at_ = end + 1;
      } else if (!take(":")) {
        return unsupported("the group \"(?...\"");
      }
    }
    NMM_ASSIGN(PatternNode node, alternatives());
    if (!take(")")) return fail("a group has no ')'");
    return node;
  }

  Result<PatternNode> escape() {
    const char next = peek();
    if (next == 'b' || next == 'B') return unsupported(fmt::format("the word border \\{}", next));
    if ((next >= '1' && next <= '9') || next == 'k') return unsupported("a backreference");
    NMM_ASSIGN(CharacterSet set, escaped_set());
    return character_node(std::move(set));
  }

  // Reads the part of an escape after the backslash.
  Result<CharacterSet> escaped_set() {
    if (done()) return fail("the pattern ends with a backslash");
    if (take("d")) return kDigits;
    if (take("D")) return kDigits.complement();
    if (take("w")) return kWord;
    if (take("W")) return kWord.complement();
    if (take("s")) return kSpace;
    if (take("S")) return kSpace.complement();
    if (take("p{")) return property();
    if (take("P{")) {
      NMM_ASSIGN(const CharacterSet set, property());
      return set.complement();
    }
    NMM_ASSIGN(const char32_t character, escaped_character());
    return one(character);
  }

  // Reads the part of a property after "\p{".
  Result<CharacterSet> property() {
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return fail("a property \\p{{ has no '}}'");
    const std::string_view name = pattern_.substr(at_, end - at_);
    at_ = end + 1;
    NMM_ASSIGN(const auto set, characters_with_property(name, budget_));
    NMM_TRY(charge(0, *set));
    return *set;
  }

  Result<char32_t> escaped_character() {
    static constexpr std::pair<char, char32_t> kControls[] = {{'t', 0x9}, {'n', 0xA}, {'v', 0xB},
                                                              {'f', 0xC}, {'r', 0xD}, {'0', 0x0}};
    if (peek() == '0' && is_digit(at_ + 1)) return unsupported("an octal escape");
    for (const auto& [letter, character] : kControls) {
      if (take(std::string_view(&letter, 1))) return character;
    }
    if (take("x")) return hexadecimal(2);
    if (take("u{")) {
      NMM_ASSIGN(const char32_t character, hexadecimal(0));
      if (!take("}")) return fail("\\u{{ has no end");
      return character;
    }
    if (take("u")) return utf16_character();
    if (take("c")) {
      const char letter = peek();
      if ((letter | 0x20) < 'a' || (letter | 0x20) > 'z') return unsupported("the escape \\c");
      ++at_;
      return static_cast<char32_t>(letter & 0x1F);
    }
    const char letter = peek();
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))
      return unsupported(fmt::format("the escape \\{}", letter));
    return take_character();
  }

  // Reads the digits after "\u", and a second escape if they are the first half of a surrogate
  // pair, as in "\uD83D\uDE00".
  Result<char32_t> utf16_character() {
    NMM_ASSIGN(const char32_t high, hexadecimal(4));
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) return unsupported("half a surrogate pair");
    NMM_ASSIGN(const char32_t low, hexadecimal(4));
    if (low < 0xDC00 || low > 0xDFFF) return unsupported("half a surrogate pair");
    return static_cast<char32_t>(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
  }

  // Reads a number of exactly `digits` digits, or of as many as there are if `digits` is 0.
  Result<char32_t> hexadecimal(int digits) {
    char32_t value = 0;
    int read = 0;
    for (; (digits == 0 || read < digits) && !done(); ++read, ++at_) {
      const char digit = static_cast<char>(peek() | 0x20);
      if (peek() >= '0' && peek() <= '9') {
        value = value * 16 + static_cast<char32_t>(peek() - '0');
      } else if (digit >= 'a' && digit <= 'f') {
        value = value * 16 + static_cast<char32_t>(digit - 'a' + 10);
      } else {
        break;
      }
      if (value > kLastCharacter) return fail("a character above U+10FFFF at byte {}", at_);
    }
    if (read == 0 || read < digits) return fail("expected a hexadecimal digit at byte {}", at_);
    return value;
  }

  Result<PatternNode> character_class() {
    const bool negated = take("^");
    std::vector<CharacterRange> ranges;
    while (!take("]")) {
      if (done()) return fail("a character class has no ']'");
      NMM_TRY(class_item(ranges));
    }
    CharacterSet set = CharacterSet::of(std::move(ranges));
    return character_node(negated ? set.complement() : std::move(set));
  }

  Status class_item(std::vector<CharacterRange>& ranges) {
    NMM_ASSIGN(const CharacterSet first, class_atom());
    NMM_TRY(add(first, ranges));
    const bool is_range = peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
    if (!is_range) return {};
    ++at_;
    NMM_ASSIGN(const CharacterSet last, class_atom());
    const auto single = [](const CharacterSet& s) {
      return s.ranges().size() == 1 && s.ranges().front().first == s.ranges().front().last;
    };
    if (!single(first) || !single(last)) {  // as in "[\w-.]", where the hyphen is literal
      ranges.push_back({'-', '-'});
      return add(last, ranges);
    }
    const CharacterRange range = {first.ranges().front().first, last.ranges().front().first};
    if (range.first > range.last)
      return fail("a range of a character class is out of order before byte {}", at_);
    ranges.push_back(range);
    return {};
  }

  // Adds a set to the ranges of a class. Sorting the ranges at the end of the class is charged,
  // too.
  Status add(const CharacterSet& set, std::vector<CharacterRange>& ranges) {
    NMM_TRY(charge(2 * sizeof(CharacterRange), set));
    if (!budget_.spend(20 * set.size())) return budget_.error();
    ranges.insert(ranges.end(), set.ranges().begin(), set.ranges().end());
    return {};
  }

  Result<CharacterSet> class_atom() {
    if (done()) return fail("a character class has no ']'");
    if (!take("\\")) return one(take_character());
    if (take("b")) return one(0x8);
    if (take("-")) return one('-');
    if (peek() >= '1' && peek() <= '9') return unsupported("an octal escape");
    return escaped_set();
  }

  const std::string_view pattern_;
  Budget& budget_;
  size_t at_ = 0;
  int depth_ = 0;
  int lookaheads_ = 0;
};

}  // namespace

Result<PatternNode> parse_pattern(std::string_view pattern, Budget& budget) {
  return PatternParser(pattern, budget).run();
}

}  // namespace neuronmm::grammar
