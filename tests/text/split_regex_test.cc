// Tests the regular expressions of pre-tokenizers: their syntax, their matches and their budget.

#include "text/unicode/split_regex.h"

#include <vector>

#include <gtest/gtest.h>

#include "text/tokenizer/split_step.h"

namespace neuronmm::text {
namespace {

using Words = std::vector<std::string>;

SplitRegex compile(std::string_view pattern, SplitRegex::Kind kind = SplitRegex::Kind::kRegex) {
  auto regex = SplitRegex::compile(pattern, kind);
  EXPECT_TRUE(regex.ok()) << (regex.ok() ? "" : regex.error().message);
  return std::move(regex).value();
}

Words split_by(std::string_view pattern, std::string_view text,
               SplitBehavior behavior = SplitBehavior::kIsolated, bool invert = false) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add(std::make_shared<SplitStep>(compile(pattern), behavior, invert));
  Words words;
  MatchBudget budget(text.size());
  pre_tokenizer.split({text}, budget, [&](std::string_view word) { words.emplace_back(word); });
  EXPECT_FALSE(budget.spent());
  return words;
}

TEST(SplitRegex, EmptyMatchesCutTheText) {
  EXPECT_EQ(split_by("x*", "axb"), (Words{"a", "x", "b"}));
  EXPECT_EQ(split_by("(?=b)", "abab"), (Words{"a", "ba", "b"}));
}

TEST(SplitRegex, ReadsPatternsAsOnigurumaDoes) {
  // White space is the property White_Space, with U+0085 and without U+180E.
  EXPECT_EQ(split_by(R"(\s)",
                     "a\xC2\x85"
                     "b"),
            (Words{"a", "\xC2\x85", "b"}));
  EXPECT_EQ(split_by(R"(\s)",
                     "a\xE1\xA0\x8E"
                     "b"),
            Words{"a\xE1\xA0\x8E"
                  "b"});
  EXPECT_EQ(split_by(R"([^\sb]+)", "a bc"), (Words{"a", " b", "c"}));
  // Caseless matching folds the long s.
  EXPECT_EQ(split_by(R"((?i:'s))", "it'\xC5\xBF!"), (Words{"it", "'\xC5\xBF", "!"}));
  // The sign ^ matches at every line.
  EXPECT_EQ(split_by("^a", "a\na"), (Words{"a", "\n", "a"}));
  // Word characters include marks and the superscripts of Latin-1, but not U+00B7.
  EXPECT_EQ(split_by(R"(\w+)", "a_\xCC\x81-\xC2\xB2\xC2\xB7"),
            (Words{"a_\xCC\x81", "-", "\xC2\xB2", "\xC2\xB7"}));
  EXPECT_EQ(split_by(R"([\w-]+)", "a-b c"), (Words{"a-b", " ", "c"}));
  EXPECT_EQ(split_by(R"(\W)", "a-b"), (Words{"a", "-", "b"}));
  // A class inside a class adds to it. A "]" at the start is a character.
  EXPECT_EQ(split_by(R"( ?[^(\s|[.,])]+)", "ab c|d.e"), (Words{"ab", " c", "|", "d", ".", "e"}));
  EXPECT_EQ(split_by("[]a]+", "a]b"), (Words{"a]", "b"}));
  // Ruby has the interval {,n}, and a "+" after an interval repeats it.
  EXPECT_EQ(split_by("a{,2}", "aaaa"), (Words{"aa", "aa"}));
  EXPECT_EQ(split_by("a{1,3}+", "aaaaab"), (Words{"aaaaa", "b"}));
  EXPECT_EQ(split_by(R"(\x{61}+\u0062)", "aab"), (Words{"aab"}));
}

TEST(SplitRegex, RefusesPatternsThatItWouldReadDifferently) {
  const auto message_of = [](std::string_view pattern) {
    const auto regex = SplitRegex::compile(pattern);
    return regex.ok() ? "accepted" : regex.error().message;
  };
  EXPECT_NE(message_of(R"(\h+)").find("\\h"), std::string::npos);
  EXPECT_NE(message_of(R"([\W])").find("\\W"), std::string::npos);
  EXPECT_NE(message_of(R"(\ba)").find("\\b"), std::string::npos);
  EXPECT_NE(message_of(R"(\xE9)").find("\\x"), std::string::npos);
  EXPECT_NE(message_of("(?m:.)").find("(?m"), std::string::npos);
  EXPECT_NE(message_of("a{2,3}+").find("{2,3}"), std::string::npos);
  EXPECT_NE(message_of("[[:alpha:]]").find("class inside a class"), std::string::npos);
  EXPECT_NE(message_of(R"([a-z&&[^b]])").find("&&"), std::string::npos);
  EXPECT_NE(message_of(R"([a[^b]])").find("class inside a class"), std::string::npos);
  EXPECT_NE(message_of("(*ACCEPT)").find("(*"), std::string::npos);
  EXPECT_NE(message_of("(a").find("regular expression"), std::string::npos);
  EXPECT_NE(message_of("a\\").find("regular expression"), std::string::npos);
  EXPECT_NE(message_of("").find("empty"), std::string::npos);
  EXPECT_NE(message_of(std::string(20'000, 'a')).find("20000 bytes"), std::string::npos);
  EXPECT_NE(message_of("\xFF").find("regular expression"), std::string::npos);
  EXPECT_NE(message_of("((((a{1000}){1000}){1000}){1000})").find("regular"), std::string::npos);
}

TEST(SplitRegex, AnExponentialPatternSpendsTheBudget) {
  const std::string text = "b" + std::string(60, 'a') + "c";
  MatchBudget budget(text.size());
  const SplitRegex regex = compile("b|(a+)+$");
  SplitRegex::Matches matches(regex, text, budget);
  EXPECT_TRUE(matches.next());
  EXPECT_FALSE(budget.spent());
  EXPECT_FALSE(matches.next());
  EXPECT_TRUE(budget.spent());
  EXPECT_FALSE(matches.next());
}

// A single match is cheap enough, but all of them together take quadratic time.
TEST(SplitRegex, TheBudgetCoversAllMatchesTogether) {
  const std::string text(200'000, 'a');
  MatchBudget budget(text.size());
  const SplitRegex regex = compile("a(?=a*b)|(?=(a|b)*c)x|a");
  SplitRegex::Matches matches(regex, text, budget);
  size_t found = 0;
  while (matches.next()) ++found;
  EXPECT_TRUE(budget.spent());
  EXPECT_LT(found, text.size());
}

// The match takes as many steps as characters, a thousand times what a match may take uncounted.
TEST(SplitRegex, ALongRunOfSpacesIsWithinTheBudget) {
  const std::string spaces(2'000'000, ' ');
  EXPECT_EQ(split_by(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", spaces + "a"),
            (Words{spaces.substr(1), " ", "a"}));
}

// The stack of the compiled code has 32 KiB. The interpreter handles deeper recursion.
TEST(SplitRegex, LongMatchesOfGroupsNeedNoStack) {
  const std::string text(50'000, 'a');
  EXPECT_EQ(split_by("(?:a|b)+", text + "-"), (Words{text, "-"}));
}

}  // namespace
}  // namespace neuronmm::text
