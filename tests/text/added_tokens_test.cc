#include "text/added_tokens.h"

#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace neuronmm::text {
namespace {

AddedToken token(const std::string& content, TokenId id) {
  AddedToken added;
  added.content = content;
  added.id = id;
  return added;
}

struct Found {
  std::string text;
  TokenId id;
  bool operator==(const Found&) const = default;
};

std::vector<Found> find_all(const AddedTokenMatcher& matcher, std::string_view text) {
  std::vector<Found> all;
  size_t from = 0;
  while (const auto match = matcher.find(text, from)) {
    all.push_back({std::string(text.substr(match->begin, match->end - match->begin)), match->id});
    from = match->end;
  }
  return all;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const AddedTokenMatcher matcher({token("ab", 1), token("abcd", 2), token("bcde", 3)});
  EXPECT_EQ(find_all(matcher, "xabcdexabcxbcde"),
            (std::vector<Found>{{"abcd", 2}, {"ab", 1}, {"bcde", 3}}));
  EXPECT_EQ(find_all(matcher, "abc"), (std::vector<Found>{{"ab", 1}}));
  EXPECT_EQ(find_all(matcher, ""), std::vector<Found>{});
  EXPECT_EQ(find_all(AddedTokenMatcher({}), "abc"), std::vector<Found>{});
}

TEST(AddedTokens, IsASearchOfEveryTokenAtEveryPlace) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<AddedToken> tokens;
    for (int i = 0; i < 6; ++i) {
      std::string content(1 + below(random, 4), ' ');
      for (char& c : content) c = below(random, 2) == 0 ? 'a' : '\xE9';
      const bool is_new = std::none_of(tokens.begin(), tokens.end(),
                                       [&](const auto& t) { return t.content == content; });
      if (is_new) tokens.push_back(token(content, i));
    }
    std::string text(below(random, 30), ' ');
    for (char& c : text) c = "a\xE9x"[below(random, 3)];
    std::vector<Found> expected;
    for (size_t i = 0; i < text.size();) {
      const AddedToken* best = nullptr;
      for (const AddedToken& t : tokens) {
        const bool here = std::string_view(text).substr(i).starts_with(t.content);
        if (here && (best == nullptr || t.content.size() > best->content.size())) best = &t;
      }
      if (best != nullptr) expected.push_back({best->content, best->id});
      i += best != nullptr ? best->content.size() : 1;
    }
    ASSERT_EQ(find_all(AddedTokenMatcher(tokens), text), expected) << "seed " << seed;
  }
}

TEST(AddedTokens, TakeWhiteSpaceWhereTheyAreToldTo) {
  AddedToken left = token("<l>", 1), right = token("<r>", 2);
  left.lstrip = true;
  right.rstrip = true;
  const AddedTokenMatcher matcher({left, right});
  EXPECT_EQ(find_all(matcher, "a \t<l> b <r>\xC2\xA0 c"),
            (std::vector<Found>{{" \t<l>", 1}, {"<r>\xC2\xA0 ", 2}}));
  // Space that the token before has taken is not taken again.
  EXPECT_EQ(find_all(matcher, "<r>  <l>"), (std::vector<Found>{{"<r>  ", 2}, {"<l>", 1}}));
}

TEST(AddedTokens, SingleWordsStandAlone) {
  AddedToken word = token("in", 1);
  word.single_word = true;
  const AddedTokenMatcher matcher({word});
  EXPECT_EQ(find_all(matcher, "in the inn, within \xC3\xA9in in_ (in)").size(), 2u);
}

TEST(AddedTokens, ATextFullOfFirstBytesTakesNoQuadraticTime) {
  std::vector<AddedToken> tokens;
  for (int i = 0; i < 1000; ++i) tokens.push_back(token("<|reserved_" + std::to_string(i), i));
  const AddedTokenMatcher matcher(tokens);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(matcher.find(std::string(1 << 20, '<'), 0));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 10.0);
}

}  // namespace
}  // namespace neuronmm::text
