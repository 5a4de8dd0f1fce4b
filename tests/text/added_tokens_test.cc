// Tests the search for added tokens, also against a naive search and on large texts.

#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <array>
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

struct FoundToken {
  std::string text;
  TokenId id;
  bool operator==(const FoundToken&) const = default;
};

std::vector<FoundToken> find_all(const AddedTokenMatcher& matcher, std::string_view text,
                                 std::span<const ByteRange> literal = {}) {
  std::vector<FoundToken> all;
  for (const auto& match : matcher.find_all(text, literal)) {
    all.push_back({std::string(text.substr(match.begin, match.end - match.begin)), match.id});
  }
  return all;
}

bool overlaps(const ByteRange& a, const ByteRange& b) {
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

TEST(AddedTokens, TheLeftmostThenTheLongestTokenWins) {
  const AddedTokenMatcher matcher({token("ab", 1), token("abcd", 2), token("bcde", 3)});
  EXPECT_EQ(find_all(matcher, "xabcdexabcxbcde"),
            (std::vector<FoundToken>{{"abcd", 2}, {"ab", 1}, {"bcde", 3}}));
  EXPECT_EQ(find_all(matcher, "abc"), (std::vector<FoundToken>{{"ab", 1}}));
  EXPECT_EQ(find_all(matcher, ""), std::vector<FoundToken>{});
  EXPECT_EQ(find_all(AddedTokenMatcher({}), "abc"), std::vector<FoundToken>{});
}

TEST(AddedTokens, EqualsASearchAtEveryByte) {
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
    // Two ranges that are ordinary text. They may be empty or adjacent.
    std::array<size_t, 4> ends;
    for (size_t& end : ends) end = below(random, static_cast<int>(text.size()) + 1);
    std::sort(ends.begin(), ends.end());
    std::vector<ByteRange> literal;
    if (seed % 2 == 0) literal = {{ends[0], ends[1]}, {ends[2], ends[3]}};
    std::vector<FoundToken> expected;
    for (size_t i = 0; i < text.size();) {
      const AddedToken* best = nullptr;
      for (const AddedToken& t : tokens) {
        const ByteRange match_range{i, i + t.content.size()};
        const bool allowed = std::none_of(literal.begin(), literal.end(), [&](const auto& range) {
          return overlaps(match_range, range);
        });
        const bool found = std::string_view(text).substr(i).starts_with(t.content);
        if (allowed && found && (best == nullptr || t.content.size() > best->content.size()))
          best = &t;
      }
      if (best != nullptr) expected.push_back({best->content, best->id});
      i += best != nullptr ? best->content.size() : 1;
    }
    ASSERT_EQ(find_all(AddedTokenMatcher(tokens), text, literal), expected) << "seed " << seed;
  }
}

TEST(AddedTokens, StripFlagsTakeTheWhiteSpaceAroundAToken) {
  AddedToken left = token("<l>", 1), right = token("<r>", 2);
  left.lstrip = true;
  right.rstrip = true;
  const AddedTokenMatcher matcher({left, right});
  EXPECT_EQ(find_all(matcher, "a \t<l> b <r>\xC2\xA0 c"),
            (std::vector<FoundToken>{{" \t<l>", 1}, {"<r>\xC2\xA0 ", 2}}));
  // White space that the token before has taken is not taken again.
  EXPECT_EQ(find_all(matcher, "<r>  <l>"), (std::vector<FoundToken>{{"<r>  ", 2}, {"<l>", 1}}));
}

// As in the tokenizers library, the search goes on after a token's content, whatever white space
// the token took.
TEST(AddedTokens, WhiteSpaceTokensAreFoundInsideStrippedSpace) {
  AddedToken space = token(" ", 1), in = token(" in", 2);
  space.rstrip = in.rstrip = true;
  EXPECT_EQ(find_all(AddedTokenMatcher({in}), " in  in", {}),
            (std::vector<FoundToken>{{" in  ", 2}, {" in", 2}}));
  const AddedTokenMatcher spaces({space});
  EXPECT_EQ(spaces.find_all("a   b").size(), 3u);
  EXPECT_EQ(spaces.find_all(std::string(1 << 20, ' ')).size(), 1u << 20);
  space.lstrip = true;
  EXPECT_EQ(find_all(AddedTokenMatcher({space}), "a   b", {}),
            (std::vector<FoundToken>{{"   ", 1}}));
}

TEST(AddedTokens, SingleWordTokensMatchNoPartOfAWord) {
  AddedToken word = token("in", 1);
  word.single_word = true;
  const AddedTokenMatcher matcher({word});
  EXPECT_EQ(find_all(matcher, "in the inn, within \xC3\xA9in in_ (in)").size(), 2u);
}

// A comparison at every byte would take about 10^10 steps range.
TEST(AddedTokens, LongTokensTakeLinearTime) {
  constexpr size_t kLength = 10'000, kText = 1'000'000;
  const std::string run(kLength, 'a');
  const AddedTokenMatcher never({token(run + "b", 1), token("b" + run, 2)});
  EXPECT_TRUE(never.find_all(std::string(kText, 'a')).empty());
  // The short token is found where the long one fails at its last byte.
  const AddedTokenMatcher always({token(run + "b", 1), token("a", 2)});
  EXPECT_EQ(always.find_all(std::string(kText, 'a')).size(), kText);
}

TEST(AddedTokens, ManyTokensWithACommonPrefixTakeLinearTime) {
  std::vector<AddedToken> tokens;
  for (int i = 0; i < 1000; ++i) tokens.push_back(token("<|reserved_" + std::to_string(i), i));
  const AddedTokenMatcher matcher(tokens);
  EXPECT_TRUE(matcher.find_all(std::string(1 << 20, '<')).empty());
  EXPECT_EQ(find_all(matcher, "<|reserved_99<|reserved_x"),
            (std::vector<FoundToken>{{"<|reserved_99", 99}}));
}

}  // namespace
}  // namespace neuronmm::text
