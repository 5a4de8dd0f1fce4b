// Tests of languages with a largest length that cannot be counted exactly. Every string of the
// resulting automaton must be short enough and in the language, and usual strings must be accepted.

#include "serve/grammar/counted_strings.h"

#include <functional>
#include <random>

#include "compiled.h"
#include "serve/grammar/pattern.h"
#include "serve/schema/formats.h"

namespace neuronmm::grammar {
namespace {

StringLanguage language(const std::string& pattern) { return compile_pattern(pattern).value(); }

StringLanguage shortened(const StringLanguage& language, int64_t maximum) {
  Budget budget;
  return subset_up_to(language, maximum, 8192, budget).value();
}

bool countable(const StringLanguage& language, int64_t maximum) {
  Budget budget;
  return can_count(language, maximum, budget);
}

// Returns the number of characters of the longest string. Fails if the automaton has a loop.
int64_t longest_string(const StringLanguage& language) {
  const auto& states = language.states();
  std::vector<int64_t> longest(states.size(), -1);
  std::vector<bool> is_open(states.size());
  const std::function<int64_t(size_t)> from = [&](size_t state) {
    if (longest[state] >= 0) return longest[state];
    EXPECT_FALSE(is_open[state]) << "a loop";
    if (is_open[state]) return int64_t{0};
    is_open[state] = true;
    int64_t found = 0;
    for (const auto& edge : states[state].edges)
      found = std::max(found, 1 + from(static_cast<size_t>(edge.target)));
    return longest[state] = found;
  };
  return from(0);
}

std::string random_string(const StringLanguage& language, std::mt19937& random) {
  std::string text;
  for (size_t state = 0;;) {
    const auto& [edges, accepting] = language.states()[state];
    if (accepting && (edges.empty() || random() % 16 == 0)) return text;
    const auto& edge = edges[random() % edges.size()];
    text += static_cast<char>(edge.range.first);
    state = static_cast<size_t>(edge.target);
  }
}

TEST(CountedStrings, AreInTheLanguageAndShortEnough) {
  std::mt19937 random(1);
  for (const std::string& pattern :
       {*format_pattern("email"), *format_pattern("uri"), *format_pattern("uri-reference"),
        *format_pattern("hostname"), *format_pattern("ipv6"), std::string("^a*(?:bcd|e)f*$"),
        std::string("^(?:[ab]{0,3}c)*d$"), std::string("^(?:ab|abab|x(?:yz){3}a*)?$")}) {
    const StringLanguage all = language(pattern);
    for (const int64_t maximum : {20, 64, 255, 2083}) {
      const StringLanguage some = shortened(all, maximum);
      ASSERT_FALSE(some.empty()) << pattern << maximum;
      EXPECT_LE(longest_string(some), maximum) << pattern;
      EXPECT_LT(some.states().size(), 20'000U) << pattern;
      for (int i = 0; i < 200; ++i) {
        const std::string text = random_string(some, random);
        ASSERT_TRUE(all.accepts(text)) << pattern << '\n' << text;
      }
    }
  }
}

TEST(CountedStrings, ALanguageOfOneLoopIsCountedExactly) {
  const StringLanguage some = shortened(language("^a*$"), 100);
  EXPECT_TRUE(some.accepts(std::string(100, 'a')));
  EXPECT_FALSE(some.accepts(std::string(101, 'a')));
}

TEST(CountedStrings, CanBeCountedIfTheStatesSuffice) {
  EXPECT_TRUE(countable(language("^a*$"), StringLanguage::kMaxStates - 1));
  EXPECT_FALSE(countable(language("^a*$"), StringLanguage::kMaxStates));
  // A length reaches only one of the two states.
  EXPECT_TRUE(countable(language("^(?:ab)*$"), StringLanguage::kMaxStates - 1));
  EXPECT_FALSE(countable(language("^(?:a|bb)*$"), StringLanguage::kMaxStates / 2 + 1));
}

// The schemas are those that pydantic writes for HttpUrl and for EmailStr with a max_length.
TEST(CountedStrings, ContainUsualAddresses) {
  Compiled url(R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})");
  EXPECT_TRUE(url.accepts("\"https://user@example.com:8080/articles/a%20b/c.html?q=1&r=2#top\""));
  EXPECT_TRUE(url.accepts("\"http://[::1]/" + std::string(40, 'a') + "\""));
  EXPECT_FALSE(url.accepts("\"https://example.com/" + std::string(2083, 'a') + "\""));
  EXPECT_FALSE(url.accepts("\"example.com\""));
  Compiled email(R"({"type": "string", "format": "email", "maxLength": 255})");
  EXPECT_TRUE(email.accepts("\"first.last+tag@mail.example.co.uk\""));
  EXPECT_TRUE(email.accepts("\"a@[127.0.0.1]\""));
  EXPECT_FALSE(email.accepts("\"" + std::string(250, 'a') + "@b.org\""));
  EXPECT_FALSE(email.accepts("\"a@b..c\""));
  Compiled reference(R"({"type": "string", "format": "uri-reference", "maxLength": 64})");
  EXPECT_TRUE(reference.accepts("\"../images/logo.png\""));
  EXPECT_FALSE(reference.accepts("\"" + std::string(65, 'a') + "\""));
}

// A negation must not treat strings that were left out as if they were not in the language.
TEST(CountedStrings, AreExactInANegation) {
  const auto compiled = compile_schema(
      Json::parse(R"({"type": "string", "not": {"format": "email", "maxLength": 255}})"), "schema");
  ASSERT_TRUE(compiled.ok());
  Automaton automaton(compiled->grammar, ByteSet().set());
  EXPECT_FALSE(accepts(automaton, "\"" + std::string(200, 'a') + "@b.org\""));
  EXPECT_TRUE(accepts(automaton, "\"" + std::string(250, 'a') + "@b.org\""));
}

}  // namespace
}  // namespace neuronmm::grammar
