// Tests of patterns. Random patterns are compared with std::regex, another implementation of the
// regular expressions of ECMA-262.

#include "serve/grammar/pattern.h"

#include <chrono>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/schema/formats.h"

namespace neuronmm::grammar {
namespace {

using testing::HasSubstr;

// Writes random patterns of a few letters with the syntax that both implementations support.
class RandomPattern {
 public:
  explicit RandomPattern(uint32_t seed) : random_(seed) {}

  std::string alternatives(int depth) {
    std::string text = sequence(depth);
    while (below(4) == 0) text += "|" + sequence(depth);
    return text;
  }
  // Writes lookaheads, which are conditions on the whole text, followed by a pattern.
  std::string with_lookaheads() {
    std::string text = "^";
    for (int i = below(3); i >= 0; --i)
      text += (below(2) == 0 ? "(?=" : "(?!") + alternatives(1) + ")";
    return text + sequence(2);
  }
  std::string text() {
    std::string text;
    for (int i = below(7); i > 0; --i) text += "abc1_ -\n."[below(9)];
    return text;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  std::string sequence(int depth) {
    std::string text = below(5) == 0 ? "^" : "";
    for (int i = below(4); i > 0; --i) text += repeated(depth);
    return text + (below(5) == 0 ? "$" : "");
  }
  std::string repeated(int depth) {
    static const std::vector<std::string> kRepeats = {"",  "",    "",      "*",    "+",
                                                      "?", "{2}", "{1,2}", "{2,}", "*?"};
    const std::string item = depth > 0 && below(3) == 0 ? group(depth) : character();
    return item + kRepeats[static_cast<size_t>(below(10))];
  }
  std::string group(int depth) {
    return (below(2) == 0 ? "(" : "(?:") + alternatives(depth - 1) + ")";
  }
  std::string character() {
    static const std::vector<std::string> kCharacters = {
        "a", "b", "c", ".", "[ab]", "[^a]", "\\d", "\\w", "\\s", "\\D", "\\.", "[a-c1]", "[\\d_-]"};
    return kCharacters[static_cast<size_t>(below(13))];
  }

  std::mt19937 random_;
};

TEST(Pattern, MatchesTheSameTextsAsStdRegex) {
  int found = 0, not_found = 0, too_large = 0;
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    RandomPattern random(seed);
    const std::string pattern = seed % 3 == 0 ? random.with_lookaheads() : random.alternatives(2);
    const auto language = compile_pattern(pattern);
    if (!language.ok()) {
      ASSERT_THAT(language.error().message, HasSubstr("too large")) << pattern;
      ++too_large;
      continue;
    }
    const std::regex expected(pattern);
    for (int i = 0; i < 30; ++i) {
      const std::string text = random.text();
      const bool match = std::regex_search(text, expected);
      ++(match ? found : not_found);
      // In std::regex, ^ and $ also match at line ends. In ECMA-262 they do so only with a flag.
      if (text.find('\n') != std::string::npos && pattern.find_first_of("^$") != std::string::npos)
        continue;
      ASSERT_EQ(language->accepts(text), match)
          << "seed " << seed << ": " << pattern << " in " << text;
    }
  }
  EXPECT_GT(found, 3000);
  EXPECT_GT(not_found, 3000);
  EXPECT_LT(too_large, 15);
}

TEST(Pattern, CharactersAreUnicode) {
  const auto language = compile_pattern("^\\u00e9[\\u{1F600}-\\u{1F64F}].\\uD83D\\uDE00$");
  ASSERT_TRUE(language.ok()) << language.error().message;
  EXPECT_TRUE(language->accepts("é😁日😀"));
  EXPECT_FALSE(language->accepts("é😁\n😀"));
  EXPECT_FALSE(language->accepts("e😁日😀"));
}

// The expected values were looked up in the Unicode Character Database.
TEST(Pattern, PropertiesAreThoseOfUnicode) {
  const auto accepts = [](const char* pattern, const char* text) {
    const auto language = compile_pattern(pattern);
    EXPECT_TRUE(language.ok()) << pattern;
    return language.ok() && language->accepts(text);
  };
  for (const char* letters :
       {"^\\p{L}+$", "^\\p{Letter}+$", "^\\p{gc=L}+$", "^[\\p{Lu}\\p{Ll}\\p{Lo}]+$"}) {
    EXPECT_TRUE(accepts(letters, "Straßeжλ字")) << letters;
    EXPECT_FALSE(accepts(letters, "a1")) << letters;
    EXPECT_FALSE(accepts(letters, "a b")) << letters;
  }
  EXPECT_TRUE(accepts("^\\P{L}+$", "12 -_."));
  EXPECT_FALSE(accepts("^\\P{L}+$", "12ж"));
  EXPECT_TRUE(accepts("^\\p{Script=Greek}+$", "λόγος"));
  EXPECT_FALSE(accepts("^\\p{Script=Greek}+$", "logos"));
  EXPECT_TRUE(accepts("^[^\\p{P}\\s]+$", "ab1"));
  EXPECT_FALSE(accepts("^[^\\p{P}\\s]+$", "a!"));
  EXPECT_TRUE(accepts("^\\p{Sc}\\p{Nd}+$", "€5٣"));
  EXPECT_TRUE(accepts("^\\p{Emoji_Presentation}$", "😀"));
}

TEST(Pattern, UnsupportedSyntaxIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a(?!b)", "lookaround \"(?!\" at byte 1"},
      {"(?!b)a", "lookaround \"(?!\" at byte 0"},
      {"^a|^(?=b)", "lookaround \"(?=\" at byte 4"},
      {"^(?=a(?!b))", "lookaround \"(?!\" at byte 5"},
      {"^(?:(?=b)a)*", "lookaround \"(?=\" at byte 4"},
      {"^(?=a)*b", "nothing to repeat"},
      {"^(?=a", "a group has no ')'"},
      {"(?<=a)b", "lookaround \"(?<=\""},
      {"(a)\\1", "a backreference"},
      {"\\ba", "the word border"},
      {"\\p{Elvish}", "the property \\p{Elvish} is not known"},
      {"\\p{L", "has no '}'"},
      {"\\p{L}\\p{", "has no '}'"},
      {"(a", "a group has no ')'"},
      {"a)", "unmatched ')'"},
      {"[a", "a character class has no ']'"},
      {"*a", "nothing to repeat"},
      {"a**", "nothing to repeat"},
      {"a{2}{3}", "nothing to repeat"},
      {"a{3,2}", "out of order"},
      {"[b-a]", "out of order"},
      {"\\x1", "expected a hexadecimal digit"},
      {"\\uD83D", "half a surrogate pair"},
      {"\\u{110000}", "above U+10FFFF"},
      {"a\\", "ends with a backslash"},
      {"\xff", "not UTF-8"},
      {"(?i:a)", "the group"},
      {"\\a", "the escape \\a"}};
  for (const auto& [pattern, message] : cases) {
    const auto language = compile_pattern(pattern);
    ASSERT_FALSE(language.ok()) << pattern;
    EXPECT_THAT(language.error().message, HasSubstr(message)) << pattern;
  }
}

// The first pattern is zod's for an email address. The second one is a common rule for passwords.
TEST(Pattern, LookaheadsAtTheBeginningAreConditionsOnTheText) {
  const auto email = compile_pattern(
      "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+"
      "[A-Za-z]{2,}$");
  ASSERT_TRUE(email.ok()) << email.error().message;
  for (const char* text : {"a.b@example.com", "a@b.cd"}) EXPECT_TRUE(email->accepts(text)) << text;
  for (const char* text : {".a@example.com", "a..b@example.com", "a@b..cd", "a@b"})
    EXPECT_FALSE(email->accepts(text)) << text;
  const auto password = compile_pattern("^(?:(?=.*[A-Z])(?=.*\\d)(?!.*\\s).{4,6})$");
  ASSERT_TRUE(password.ok()) << password.error().message;
  for (const char* text : {"aB3d", "1234éZ"}) EXPECT_TRUE(password->accepts(text)) << text;
  for (const char* text : {"ab3d", "aBcd", "aB3", "aB3 d", "aB3defg"})
    EXPECT_FALSE(password->accepts(text)) << text;
}

TEST(Pattern, LargePatternsAreRefusedInTime) {
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string pattern :
       {"(a{1,1000}){1,1000}", "^(a|b)*a(a|b){30}$", "((((a{9}){99}){99}){99}){99}",
        "(a*b*c*){500}(.*a.{40}){20}", "((){999999}){999999}", "[^a]{0,99999999}"}) {
    const auto language = compile_pattern(pattern);
    ASSERT_FALSE(language.ok()) << pattern;
    EXPECT_THAT(language.error().message, HasSubstr("too large")) << pattern;
  }
  EXPECT_FALSE(compile_pattern(std::string(100'000, '(')).ok());
  std::string lookaheads = "^";
  for (int i = 0; i < 1000; ++i) lookaheads += "(?=(a|b)*a(a|b){12}$)";
  EXPECT_THAT(compile_pattern(lookaheads).error().message, HasSubstr("more than 16 lookaheads"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Pattern, EveryFormatMatchesSomeText) {
  for (const char* format : {"date",
                             "time",
                             "date-time",
                             "duration",
                             "uuid",
                             "ipv4",
                             "ipv6",
                             "hostname",
                             "email",
                             "uri",
                             "uri-reference",
                             "json-pointer",
                             "relative-json-pointer",
                             "uuid1",
                             "uuid3",
                             "uuid5",
                             "uuid6",
                             "uuid7",
                             "uuid8",
                             "base64url",
                             "ipvanyaddress"}) {
    const auto pattern = format_pattern(format);
    ASSERT_TRUE(pattern) << format;
    const auto language = compile_pattern(*pattern);
    ASSERT_TRUE(language.ok()) << format << ": " << language.error().message;
    EXPECT_FALSE(language->empty()) << format;
  }
}

}  // namespace
}  // namespace neuronmm::grammar
