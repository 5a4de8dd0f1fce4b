// Compares Bpe with the definition of byte pair encoding, followed literally.

#include "text/tokenizer/bpe.h"

#include <chrono>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace neuronmm::text {
namespace {

// Joins the leftmost pair of the lowest rank until no pair has a merge.
std::vector<TokenId> naive_bpe(std::string_view word, const Merges& merges) {
  std::map<std::pair<std::string, std::string>, int> rank;
  std::map<std::string, TokenId> id;
  for (int b = 0; b < 256; ++b) id[std::string(1, static_cast<char>(b))] = b;
  for (size_t i = 0; i < merges.size(); ++i) {
    rank[merges[i]] = static_cast<int>(i);
    id[merges[i].first + merges[i].second] = static_cast<TokenId>(256 + i);
  }
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  while (true) {
    int best_rank = INT32_MAX;
    size_t best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = rank.find({symbols[i], symbols[i + 1]});
      if (found == rank.end() || found->second >= best_rank) continue;
      best_rank = found->second;
      best = i;
    }
    if (best_rank == INT32_MAX) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<TokenId> ids;
  for (const std::string& symbol : symbols) ids.push_back(id.at(symbol));
  return ids;
}

// Returns merges of existing tokens in random order. Each merge makes a new token.
Merges random_merges(std::mt19937& random, int count, int letters) {
  std::vector<std::string> tokens;
  for (int i = 0; i < letters; ++i) tokens.emplace_back(1, static_cast<char>('a' + i));
  std::map<std::string, bool> known;
  Merges merges;
  for (int tries = 0; tries < 10 * count && std::ssize(merges) < count; ++tries) {
    const std::string left = tokens[below(random, tokens.size())];
    const std::string right = tokens[below(random, tokens.size())];
    if (known.contains(left + right)) continue;
    known[left + right] = true;
    merges.emplace_back(left, right);
    tokens.push_back(left + right);
  }
  return merges;
}

TEST(Bpe, EqualsTheDefinitionOnRandomMergesAndWords) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const int letters = 1 + static_cast<int>(below(random, 4));
    const Merges merges = random_merges(random, 30, letters);
    const Tokenizer tokenizer = parse_or_die(small_tokenizer(merges));
    for (int i = 0; i < 50; ++i) {
      std::string word(below(random, 40), ' ');
      for (char& c : word)
        c = static_cast<char>('a' + below(random, static_cast<uint32_t>(letters)));
      const auto expected = naive_bpe(word, merges);
      ASSERT_EQ(tokenizer.encode(word).value(), expected) << word;
      ASSERT_EQ(tokenizer.encode(word).value(), expected) << word << " (again)";
    }
  }
}

// "abc" is a token by the merge of "a" and "bc". As "ab" merges first, only ignore_merges gives it.
TEST(Bpe, WithIgnoreMergesAWordThatIsATokenStaysOne) {
  const Merges merges = {{"a", "b"}, {"b", "c"}, {"a", "bc"}};
  nlohmann::json root = small_tokenizer(merges);
  const std::vector<TokenId> merged = {256, 'c'}, whole = {258};
  const Tokenizer with_merges = parse_or_die(root);
  EXPECT_EQ(with_merges.encode("abc").value(), merged);
  EXPECT_EQ(with_merges.encode("abc").value(), merged);
  root["model"]["ignore_merges"] = true;
  EXPECT_EQ(parse_or_die(root).encode("abc").value(), whole);
}

TEST(Bpe, ARepeatedMergeCountsWithItsLastRank) {
  nlohmann::json root = small_tokenizer({{"a", "b"}, {"b", "c"}});
  root["model"]["merges"].push_back("a b");
  EXPECT_EQ(parse_or_die(root).encode("abc").value(), (std::vector<TokenId>{'a', 257}));
}

TEST(Bpe, AByteWithoutATokenIsLeftOut) {
  nlohmann::json root = small_tokenizer({{"a", "b"}});
  root["model"]["vocab"].erase("x");
  const Tokenizer tokenizer = parse_or_die(root);
  EXPECT_EQ(tokenizer.encode("axb").value(), (std::vector<TokenId>{256}));
  EXPECT_EQ(tokenizer.encode("x").value(), (std::vector<TokenId>{}));
}

// Encoding takes n log n steps. A quadratic algorithm would need hours for a megabyte. The bound
// allows for sanitizers and a busy machine.
TEST(Bpe, AMegabyteOfOneLetterTakesSeconds) {
  const Merges merges = {{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}};
  const Tokenizer tokenizer = parse_or_die(small_tokenizer(merges));
  const auto start = std::chrono::steady_clock::now();
  const auto ids = tokenizer.encode(std::string(1 << 20, 'a')).value();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ids, std::vector<TokenId>((1 << 20) / 8, 258));
  EXPECT_LT(took.count(), 30.0);
}

}  // namespace
}  // namespace neuronmm::text
