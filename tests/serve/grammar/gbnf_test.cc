// Tests of grammars in GBNF: which texts they allow, which grammars are refused, and that the work
// for hostile ones is bounded. Random grammars are compared with a recognizer that shares no code
// with the compiler (gbnf_matcher.h).

#include "serve/grammar/gbnf.h"

#include <chrono>
#include <random>

#include <gmock/gmock.h>

#include "accepts.h"
#include "gbnf_matcher.h"
#include "places.h"
#include "serve/grammar/automaton.h"
#include "serve/grammar/matcher.h"

namespace neuronmm::grammar {
namespace {

using text::TokenId;

// A vocabulary of single bytes and a few longer tokens. Token 0 ends the answer, and the token
// <think> has no text, as special tokens have none.
const std::vector<std::string> kTokens = {"", "<think>", "</think>", "ab", "abc", "yes", "a\n"};

std::shared_ptr<const TokenVocabulary> vocabulary() {
  static const auto kVocabulary = [] {
    std::vector<std::string> texts = kTokens;
    texts[1].clear();
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    return std::make_shared<const TokenVocabulary>(std::move(texts), std::vector<TokenId>{0});
  }();
  return kVocabulary;
}

std::optional<TokenId> token_of(std::string_view text) {
  const auto found = std::ranges::find(kTokens, text);
  if (text.empty() || found == kTokens.end()) return std::nullopt;
  return static_cast<TokenId>(found - kTokens.begin());
}

Result<CompiledGrammar> compile(std::string_view text, Budget* budget = nullptr) {
  const GbnfVocabulary tokens = {token_of,
                                 [](TokenId id) { return id > 0 && id < vocabulary()->size(); }};
  return compile_gbnf(text, "grammar", tokens, budget);
}

std::string error(std::string_view text) {
  const auto compiled = compile(text);
  return compiled.ok() ? "no error" : compiled.error().message;
}

// A compiled grammar with its automaton. The test fails if the grammar does not compile.
class Gbnf {
 public:
  explicit Gbnf(std::string_view text) : compiled_(compile(text)) {
    EXPECT_TRUE(compiled_.ok()) << text << "\n" << error(text);
    if (compiled_.ok()) automaton_.emplace(compiled_->grammar, ByteSet().set());
  }
  Gbnf(const Gbnf&) = delete;
  Gbnf& operator=(const Gbnf&) = delete;
  bool accepts(std::string_view text) { return automaton_ && grammar::accepts(*automaton_, text); }
  const std::vector<std::string>& notes() const { return compiled_->notes; }

 private:
  Result<CompiledGrammar> compiled_;
  std::optional<Automaton> automaton_;
};

struct Case {
  std::string_view grammar;
  std::vector<std::string_view> accepted, refused;
};

TEST(Gbnf, AllowsTheTextsOfItsRoot) {
  const std::vector<Case> cases = {
      {R"(root ::= "yes" | "no")", {"yes", "no"}, {"", "ye", "yesno"}},
      {"root ::= [a-c]+ [^a-c] .", {"abcd\n", "axé"}, {"abc", "dax", "axyz"}},
      {R"(root ::= "a"{2} "b"{1,} "c"{0,2})", {"aab", "aabbbbcc"}, {"ab", "aabccc", "aaab"}},
      {R"(root ::= ("a" | "b" "c")* "d"?)", {"", "abcbcad", "d"}, {"b", "dd"}},
      {R"(root ::= "ab"*)", {"", "abab"}, {"aba"}},
      {R"(root ::= "\n\t\\\"\[\]\-" [\]\^\-\x41\u00e9\U0001F600])",
       {"\n\t\\\"[]-]", "\n\t\\\"[]-A", "\n\t\\\"[]-\u00e9", "\n\t\\\"[]-\U0001F600"},
       {"\n\t\\\"[]-B"}},
      {"root ::= [a-] [-a] [a-c-e]", {"--b", "aa-"}, {"-bd", "b-a"}},
      {"root ::= x-1 x_2 # a comment\nx-1 ::=\n  \"a\" |\n  \"b\"\n  | \"c\"\n# end\nx_2::=\"d\"",
       {"ad", "bd", "cd"},
       {"d"}},
      {"root ::= (\n  \"a\" # one\n\n  \"b\"\n)\r\n", {"ab"}, {"a"}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(()", ")("}},
      {R"(root ::= | "a" | )", {"", "a"}, {"aa"}},
      {R"(root ::= [ぁ-ゟ]+)", {"ひらがな"}, {"", "a", "カ", "\xE3\x81"}},
      {R"(root ::= ("a"?)* "b" ("a"{0})+ (("c"?)+)?)", {"b", "aabcc"}, {"a", "ba"}},
      {R"(root ::= "a"?{2,3})", {"", "a", "aaa"}, {"aaaa"}},
  };
  for (const Case& one : cases) {
    Gbnf grammar(one.grammar);
    for (const std::string_view text : one.accepted)
      EXPECT_TRUE(grammar.accepts(text)) << one.grammar << "\n" << text;
    for (const std::string_view text : one.refused)
      EXPECT_FALSE(grammar.accepts(text)) << one.grammar << "\n" << text;
  }
}

TEST(Gbnf, RefusesWhatItCannotFollow) {
  const std::pair<std::string_view, const char*> cases[] = {
      {"", "grammar: line 1: expected rules such as root ::= \"text\""},
      {" # nothing\n", "grammar: line 1: expected rules"},
      {"start: \"a\"", "grammar: line 1: expected ::= after start, found \": "},
      {"a ::= \"x\"", "grammar: expected a rule named root, found a"},
      {"root ::= a\n\nb ::= \"x\"", "grammar: line 1: the rule a is not defined"},
      {"root ::= \"a\nroot", "line 1: expected \" at the end of the text"},
      {"root ::= [ab", "line 1: expected ] at the end of the class of characters"},
      {"root ::= []", "line 1: expected a character between [ and ]"},
      {"root ::= [z-a]", "a range of characters ends before its begin"},
      {"root ::= (\"a\"\n", "line 2: expected an item or ), found the end of the grammar"},
      {"root ::= \"a\" )",
       "expected an item of the rule root, or the end of its line, found \")\""},
      {"root ::= *", "expected an item before \"*\""},
      {"root ::= \"a\"{,2}", "expected a number, found \",2}\""},
      {"root ::= \"a\"{2", "expected }, found the end of the grammar"},
      {"root ::= \"a\"{3,2}", "{3,2} asks for more repetitions than it allows"},
      {"root ::= \"a\"{9999999}", "expected at most 1000000 repetitions"},
      {"root ::= \"\\q\"", "expected one of the escapes"},
      {"root ::= \"\\x4\"", "expected 2 hexadecimal digits in the escape"},
      {"root ::= \"\\uD800\"", "expected the number of a Unicode character"},
      {"root ::= \"\\UFFFFFFFF\"", "expected the number of a Unicode character"},
      {"root ::= \"a\" ::= \"b\"", "or the end of its line, found \"::= "},
      {"root ::= root \"a\" | \"b\"", "line 1: the rule root may begin with itself"},
      {"root ::= x\nx ::= y \"a\" | \"b\"\ny ::= x",
       "line 2: the rule x may begin with itself (left recursion: x, y, x)"},
      {"root ::= e root | \"b\"\ne ::= \" \"*", "line 1: the rule root may begin with itself"},
      {"root ::= (\"a\"? root)* \"b\"", "line 1: the rule root may begin with itself"},
      {"root ::= \"b\"\nunused ::= unused", "line 2: the rule unused may begin with itself"},
      {"root ::= \"a\" root", "line 1: the rule root has no text that ends"},
      {"root ::= <none>", "grammar: <none> is not one token of the model"},
      {"root ::= <[0]>", "<[0]> ends the answer, or the model has no such token"},
      {"root ::= <[99999]>", "or the model has no such token"},
      {"root ::= <[x]>", "<[x]> is not one token of the model"},
      {"root ::= <a", "expected a token such as <think>, found \"<a\""},
      {"root ::= !\"a\"", "expected < after !, found"},
      {"root ::= \"\xFF\"", "expected UTF-8"},
      {"root ::= \"a\"****+", "expected at most 4 marks of repetition behind one item"},
  };
  for (const auto& [grammar, message] : cases)
    EXPECT_THAT(error(grammar), testing::HasSubstr(message)) << grammar;
}

TEST(Gbnf, RefusesARootThatNestsTooDeep) {
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 300; ++i) rules += fmt::format("r{} ::= r{} \"x\"\n", i, i + 1);
  EXPECT_THAT(error(rules + "r300 ::= \"y\""),
              testing::HasSubstr("line 1: every text of the rule root nests rules more than 256"));
}

TEST(Gbnf, TheLastDefinitionOfARuleCounts) {
  Gbnf grammar("root ::= a\na ::= \"x\"\na ::= \"y\"");
  EXPECT_TRUE(grammar.accepts("y"));
  EXPECT_FALSE(grammar.accepts("x"));
  EXPECT_THAT(grammar.notes(), testing::ElementsAre(testing::HasSubstr("lines 2 and 3")));
}

// Rules that call themselves at their end do not nest.
TEST(Gbnf, ListsHaveAnyLength) {
  Gbnf recursive("root ::= item (\",\" root)?\nitem ::= [0-9] | \"[\" root \"]\"");
  Gbnf repeated("root ::= item+\nitem ::= [0-9] \",\"");
  std::string list;
  for (int i = 0; i < 2000; ++i) list += "7,";
  EXPECT_TRUE(repeated.accepts(list));
  EXPECT_FALSE(recursive.accepts(list));
  EXPECT_TRUE(recursive.accepts(list + "[1,2]"));
}

TEST(Gbnf, NestedRepetitionsDoNotMultiply) {
  std::string nested = "\"a\"", counted = nested;
  for (int i = 0; i < 60; ++i) nested = "(" + nested + ")+";
  for (int i = 0; i < 6; ++i) counted = "(" + counted + "){10}";
  EXPECT_TRUE(Gbnf("root ::= " + nested).accepts("aaa"));
  EXPECT_FALSE(Gbnf("root ::= " + nested).accepts(""));
  EXPECT_LT(compile("root ::= " + counted)->grammar.edges(), 100);
}

class RandomGrammar {
 public:
  explicit RandomGrammar(uint64_t seed) : random_(seed) {}

  // A rule calls only later rules, or itself behind a character.
  std::string text() {
    constexpr int kRules = 4;
    std::string grammar;
    for (rule_ = 0; rule_ < kRules; ++rule_)
      grammar += (rule_ == 0 ? "root" : name(rule_)) + " ::= " + alternatives(3) + " \"\"\n";
    return grammar;
  }
  std::string letters(size_t most) {
    std::string text(pick(most + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + pick(3));
    return text;
  }

 private:
  size_t pick(size_t count) { return random_() % count; }
  static std::string name(size_t rule) { return "r" + std::to_string(rule); }

  std::string alternatives(int depth) {
    std::string text = sequence(depth);
    while (pick(3) == 0) text += " | " + sequence(depth);
    return text;
  }
  std::string sequence(int depth) {
    std::string text;
    for (size_t i = pick(4); i > 0; --i) text += item(depth) + " ";
    return text;
  }
  std::string item(int depth) {
    constexpr const char* kMarks[] = {"", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}"};
    return plain_item(depth) + kMarks[pick(std::size(kMarks))];
  }
  std::string plain_item(int depth) {
    constexpr const char* kLeaves[] = {"\"a\"", "\"bc\"", "\"\"", "[a-b]", "[^a]", ".", "[ac]"};
    const size_t kind = pick(depth > 0 ? 8 : 5);
    if (kind > 5) return "(" + alternatives(depth - 1) + ")";
    if (kind == 5) return "(\"a\" " + (rule_ == 0 ? "root" : name(rule_)) + " | )";
    if (kind == 4 && rule_ < 3) return name(rule_ + 1 + pick(3 - rule_));
    return kLeaves[pick(std::size(kLeaves))];
  }

  std::mt19937_64 random_;
  size_t rule_ = 0;
};

TEST(Gbnf, AgreesWithATestThatTriesEveryWay) {
  const uint64_t first = std::random_device{}() % 1'000'000;
  int compared = 0, accepted = 0;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    RandomGrammar random(seed);
    const std::string text = random.text();
    const auto compiled = compile(text);
    if (!compiled.ok()) {
      EXPECT_THAT(error(text), testing::HasSubstr("no text that ends")) << seed << "\n" << text;
      continue;
    }
    Automaton automaton(compiled->grammar, ByteSet().set());
    for (int i = 0; i < 12; ++i) {
      const std::string letters = random.letters(7);
      const bool expected = gbnf_accepts(text, letters);
      ++compared;
      accepted += expected ? 1 : 0;
      ASSERT_EQ(accepts(automaton, letters), expected) << "seed " << seed << "\n"
                                                       << text << letters;
    }
  }
  EXPECT_GT(compared, 600) << first;
  EXPECT_GT(accepted, 40) << first;
}

// Writes an answer with the tokens of these texts. Returns whether each was allowed and the answer
// is then complete.
bool writes(std::string_view grammar, const std::vector<TokenId>& answer) {
  auto compiled = compile(grammar);
  EXPECT_TRUE(compiled.ok()) << error(grammar);
  auto masks = TokenMasks::make(std::move(compiled).value(), vocabulary());
  EXPECT_TRUE(masks.ok()) << masks.error().message;
  Matcher matcher(*masks);
  std::vector<uint64_t> mask(vocabulary()->mask_words());
  for (const TokenId token : answer) {
    matcher.allowed_tokens(mask);
    if ((mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) == 0) return false;
    matcher.advance(token);
  }
  return matcher.is_complete();
}

TokenId byte(char c) { return static_cast<TokenId>(kTokens.size()) + static_cast<uint8_t>(c); }

TEST(Gbnf, NamesTokens) {
  constexpr std::string_view kThoughts = "root ::= <think> !</think>* </think> \"abc\"";
  const TokenId think = 1, end = 2, ab = 3, abc = 4;
  EXPECT_TRUE(writes(kThoughts, {think, end, abc}));
  EXPECT_TRUE(writes(kThoughts, {think, ab, byte('<'), byte('\n'), end, ab, byte('c')}));
  EXPECT_TRUE(writes(kThoughts, {think, think, end, abc}));
  EXPECT_TRUE(writes("root ::= !<[2]>", {abc}));
  EXPECT_FALSE(writes("root ::= !<[2]>", {think}));  // a special token that is not named
  EXPECT_TRUE(writes("root ::= <think> !<[2]>+ <[2]>", {think, abc, end}));
  EXPECT_FALSE(writes(kThoughts, {end, abc}));
  EXPECT_FALSE(writes(kThoughts, {abc}));
  // The bytes of </think> are not the token.
  std::vector<TokenId> spelled = {think};
  for (const char c : std::string_view("</think>")) spelled.push_back(byte(c));
  spelled.push_back(abc);
  EXPECT_FALSE(writes(kThoughts, spelled));
}

TEST(Gbnf, TellsWhichTokensItNames) {
  auto compiled = compile("root ::= <[5]> | !<think>");
  ASSERT_TRUE(compiled.ok());
  const auto masks = TokenMasks::make(std::move(compiled).value(), vocabulary());
  ASSERT_TRUE(masks.ok());
  EXPECT_TRUE((*masks)->names(1));
  EXPECT_FALSE((*masks)->names(2));
  EXPECT_TRUE((*masks)->names(5));
}

TEST(Gbnf, ATokenMayBeReadAsTextToo) {
  constexpr std::string_view kEither = "root ::= <[4]> \"!\" | \"abcd\"";
  EXPECT_TRUE(writes(kEither, {4, byte('!')}));
  EXPECT_TRUE(writes(kEither, {4, byte('d')}));
  EXPECT_FALSE(writes(kEither, {3, byte('c'), byte('!')}));
  EXPECT_TRUE(writes(kEither, {3, byte('c'), byte('d')}));
}

TEST(Gbnf, TheWorkIsBounded) {
  const auto repeated = [](std::string_view text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  std::string rules = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i)
    rules += fmt::format("r{} ::= \"a\" r{} | r{}\n", i, i + 1, i + 1);
  const std::string grammars[] = {
      "root ::= " + repeated("(", 100'000),
      "root ::= " + repeated("(", 190) + "\"a\"" + repeated("){1000}", 190),
      "root ::= " + repeated("\"a\" | ", 100'000),
      "root ::= " + repeated("\"a\"? ", 100'000),
      "root ::= " + repeated("[a-z]{1000} ", 2000),
      "root ::= " + repeated("<[3]> ", 100'000),
      "root ::= " + repeated("[^\\x00-\\U000FFFFF] ", 60'000),
      rules + "r20000 ::= \"b\"",
      repeated("root ::= \"a\"\n", 100'000),
      "root ::= \"" + repeated("x", 500'000) + "\"",
      "root ::= ((a{0,1000}){0,1000}){0,1000}\na ::= \"a\"?",
      "root ::= x x x x x x x x\nx ::= y y y y y y y y\ny ::= z z z z z z z z\nz ::= \"a\"*",
  };
  for (const std::string& grammar : grammars) {
    const auto begin = std::chrono::steady_clock::now();
    Budget budget({.steps = 3'000'000, .bytes = int64_t{24} << 20});
    auto compiled = compile(grammar, &budget);
    const std::string shown = grammar.substr(0, 40);
    EXPECT_LT(budget.most_bytes(), int64_t{128} << 20) << shown;
    if (compiled.ok()) {
      auto masks = TokenMasks::make(std::move(compiled).value(), vocabulary(), 1 << 20, &budget);
      EXPECT_TRUE(masks.ok() || !masks.error().message.empty());
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(time.count(), 5.0) << shown;
  }
}

}  // namespace
}  // namespace neuronmm::grammar
