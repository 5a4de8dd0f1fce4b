// Compares the samplers that llama.cpp has and transformers lacks (repetition penalty with a
// window, typical-p, XTC, DRY) with naive versions in doubles.

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/continuation.h"
#include "model/sampler.h"

namespace neuronmm::model {
namespace {

using Tokens = std::vector<TokenId>;

// Random logits and texts. Texts have few different tokens, so that sequences repeat.
class LlamaSampling : public testing::Test {
 protected:
  LlamaSampling() { message_.emplace(__FILE__, __LINE__, fmt::format("seed {}", seed_)); }

  int64_t pick(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  double real(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  std::vector<float> logits(int64_t size) {
    std::vector<float> values;
    for (int64_t i = 0; i < size; ++i) values.push_back(static_cast<float>(real(-6.0, 6.0)));
    return values;
  }
  Tokens text(int64_t size, int64_t tokens) {
    Tokens made;
    for (int64_t i = 0; i < size; ++i) made.push_back(static_cast<TokenId>(pick(tokens)));
    return made;
  }

  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
  std::optional<testing::ScopedTrace> message_;
};

std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> shares;
  double total = 0.0;
  for (const double logit : logits) total += std::exp(logit);
  for (const double logit : logits) shares.push_back(std::exp(logit) / total);
  return shares;
}

// Returns the distribution over the vocabulary that the candidates stand for.
std::vector<double> shares_of(const std::vector<Candidate>& candidates, size_t vocabulary) {
  std::vector<double> shares(vocabulary, 0.0);
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  for (const Candidate& c : candidates) shares[static_cast<size_t>(c.id)] = c.weight / total;
  return shares;
}

void expect_equal(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-12) << i;
}

std::vector<double> distribution(const SamplingOptions& options, const std::vector<float>& logits,
                                 const Tokens& prompt, const Tokens& generated) {
  return shares_of(Sampler(options).candidates(logits, prompt, generated), logits.size());
}

TEST_F(LlamaSampling, RepeatPenaltyLooksAtTheLastTokens) {
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> scores = logits(20);
    const Tokens prompt = text(1 + pick(12), 20), generated = text(pick(12), 20);
    SamplingOptions options = {.temperature = 1.0};
    options.repeat_penalty = real(0.5, 2.0);
    options.repeat_last_n = pick(26) - 1;
    Tokens all = prompt;
    all.insert(all.end(), generated.begin(), generated.end());
    std::vector<double> expected(scores.begin(), scores.end());
    for (TokenId id = 0; id < 20; ++id) {
      bool seen = false;
      for (size_t i = 0; i < all.size(); ++i) {
        const auto from_end = static_cast<int64_t>(all.size() - i);
        const bool inside = options.repeat_last_n < 0 || from_end <= options.repeat_last_n;
        seen = seen || (inside && all[i] == id);
      }
      double& logit = expected[static_cast<size_t>(id)];
      if (seen)
        logit = logit <= 0.0 ? logit * options.repeat_penalty : logit / options.repeat_penalty;
    }
    expect_equal(distribution(options, scores, prompt, generated), softmax(expected));
    if (HasFatalFailure()) return;
  }
}

TEST_F(LlamaSampling, TypicalKeepsTheTokensNearestToTheEntropy) {
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> scores = logits(2 + pick(30));
    SamplingOptions options = {.temperature = real(0.3, 3.0), .typical_p = real(0.05, 0.999)};
    const std::vector<double> wide(scores.begin(), scores.end());
    const std::vector<double> shares = softmax(wide);
    double entropy = 0.0;
    for (const double share : shares) entropy -= share * std::log(share);
    std::set<size_t> left, kept;
    for (size_t i = 0; i < shares.size(); ++i) left.insert(i);
    for (double mass = 0.0; mass <= options.typical_p && !left.empty();) {
      const size_t nearest = *std::ranges::min_element(
          left, {}, [&](size_t i) { return std::abs(std::log(shares[i]) + entropy); });
      kept.insert(nearest);
      left.erase(nearest);
      mass += shares[nearest];
    }
    std::vector<double> expected(wide.size(), 0.0);
    double total = 0.0;
    for (const size_t i : kept) total += std::exp(wide[i] / options.temperature);
    for (const size_t i : kept) expected[i] = std::exp(wide[i] / options.temperature) / total;
    expect_equal(distribution(options, scores, {0}, {}), expected);
    if (HasFatalFailure()) return;
  }
}

// With temperature last, top-p and min-p look at the probabilities of temperature 1.
TEST_F(LlamaSampling, TemperatureMayComeLast) {
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> scores = logits(2 + pick(20));
    SamplingOptions options = {.temperature = real(0.2, 3.0), .top_p = real(0.1, 1.0)};
    options.min_p = real(0.0, 0.3);
    options.temperature_last = true;
    const std::vector<double> wide(scores.begin(), scores.end()), shares = softmax(wide);
    std::vector<size_t> order(shares.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, std::ranges::greater(), [&](size_t i) { return shares[i]; });
    std::vector<double> expected(shares.size(), 0.0);
    double mass = 0.0, total = 0.0;
    for (const size_t i : order) {
      if (mass >= options.top_p || shares[i] < options.min_p * shares[order[0]]) break;
      mass += shares[i];
      total += expected[i] = std::exp(wide[i] / options.temperature);
    }
    for (double& share : expected) share /= total;
    expect_equal(distribution(options, scores, {0}, {}), expected);
    if (HasFatalFailure()) return;
  }
}

TEST_F(LlamaSampling, XtcLeavesOutAllLikelyTokensButTheLeastLikely) {
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> scores = logits(2 + pick(8));
    SamplingOptions options = {.temperature = real(0.05, 2.0),
                               .xtc_probability = 1.0,
                               .xtc_threshold = real(0.02, 0.7),
                               .seed = random_()};
    const std::vector<double> shares = softmax({scores.begin(), scores.end()});
    std::set<TokenId> allowed;
    std::optional<size_t> least;
    for (size_t i = 0; i < shares.size(); ++i) {
      const bool likely = options.xtc_threshold <= 0.5 && shares[i] >= options.xtc_threshold;
      if (!likely) allowed.insert(static_cast<TokenId>(i));
      if (likely && (!least || shares[i] < shares[*least])) least = i;
    }
    if (least) allowed.insert(static_cast<TokenId>(*least));
    ASSERT_TRUE(allowed.contains(Sampler(options).sample(scores, Tokens{0})));
  }
}

TEST_F(LlamaSampling, XtcActsWithItsProbability) {
  const std::vector<float> scores = {3.0f, 2.5f, 0.0f, -1.0f};
  const std::vector<double> all = softmax({3.0, 2.5, 0.0, -1.0}), rest = softmax({2.5, 0.0, -1.0});
  SamplingOptions options = {
      .temperature = 1.0, .xtc_probability = 0.3, .xtc_threshold = 0.1, .seed = seed_};
  Sampler sampler(options);
  constexpr int kDraws = 40'000;
  std::map<TokenId, double> drawn;
  for (int i = 0; i < kDraws; ++i) drawn[sampler.sample(scores, Tokens{0})] += 1.0 / kDraws;
  for (TokenId id = 0; id < 4; ++id) {
    const auto i = static_cast<size_t>(id);
    const double expected = 0.7 * all[i] + (id == 0 ? 0.0 : 0.3 * rest[i - 1]);
    // Six standard deviations of a share of so many draws.
    EXPECT_NEAR(drawn[id], expected, 6.0 * std::sqrt(expected / kDraws)) << id;
  }
}

// The description of DryOptions and SequenceBreakers, word by word.
std::vector<double> naive_dry(std::vector<double> logits, Tokens all, const DryOptions& options,
                              const std::vector<Tokens>& breakers) {
  if (options.last_n >= 0 && std::ssize(all) > options.last_n)
    all.erase(all.begin(), all.end() - options.last_n);
  const int64_t size = std::ssize(all);
  int64_t most = size;  // the number of tokens after the last breaker
  for (int64_t begin = size - 1; begin >= 0 && most == size; --begin) {
    int64_t longest = -1;
    for (const Tokens& breaker : breakers) {
      const int64_t length = std::ssize(breaker);
      if (begin + length <= size && std::equal(breaker.begin(), breaker.end(), all.begin() + begin))
        longest = std::max(longest, length);
    }
    if (longest > 0) most = size - begin - longest;
  }
  if (size <= options.allowed_length || most < options.allowed_length) return logits;
  for (TokenId id = 0; id < static_cast<TokenId>(logits.size()); ++id) {
    if (std::ranges::count(breakers, Tokens{id}) > 0) continue;
    int64_t longest = -1;
    for (int64_t place = 1; place < size; ++place) {
      if (all[static_cast<size_t>(place)] != id) continue;
      int64_t length = 0;
      while (length < most && length < place &&
             all[static_cast<size_t>(place - 1 - length)] ==
                 all[static_cast<size_t>(size - 1 - length)])
        ++length;
      longest = std::max(longest, length);
    }
    if (longest < options.allowed_length) continue;
    logits[static_cast<size_t>(id)] -=
        options.multiplier *
        std::pow(options.base, static_cast<double>(longest - options.allowed_length));
  }
  return logits;
}

TEST_F(LlamaSampling, DryPenalisesWhatContinuesARepetition) {
  for (int round = 0; round < 600; ++round) {
    const int64_t tokens = 2 + pick(5);
    const std::vector<float> scores = logits(tokens);
    const Tokens prompt = text(1 + pick(20), tokens), generated = text(pick(20), tokens);
    SamplingOptions options = {.temperature = 1.0};
    options.dry = {.multiplier = real(0.1, 2.0),
                   .base = real(1.0, 2.0),
                   .allowed_length = pick(5),
                   .last_n = pick(4) == 0 ? pick(40) : -1};
    std::vector<Tokens> breakers;
    auto sets = std::make_shared<SequenceBreakers>();
    for (int64_t i = pick(3); i > 0; --i) {
      const Tokens breaker = text(1 + pick(3), tokens);
      breakers.push_back(breaker);
      sets->tails_of_head[breaker[0]].push_back({breaker.begin() + 1, breaker.end()});
    }
    options.dry.breakers = sets;
    Tokens all = prompt;
    all.insert(all.end(), generated.begin(), generated.end());
    const std::vector<double> expected =
        naive_dry({scores.begin(), scores.end()}, all, options.dry, breakers);
    expect_equal(distribution(options, scores, prompt, generated),
                 softmax(options.dry.last_n == 0 ? std::vector<double>(scores.begin(), scores.end())
                                                 : expected));
    if (HasFatalFailure()) return;
  }
}

TEST_F(LlamaSampling, DryStaysFiniteAndQuickOnLongRepetitions) {
  const Tokens prompt(200'000, 1);
  SamplingOptions options;
  options.dry = {.multiplier = 1.0, .base = 4.0};
  EXPECT_EQ(Sampler(options).sample(std::vector<float>{0.0f, 100.0f, 1.0f}, prompt), 2);
}

// A continuation gets only some logits if it draws from the likeliest ones. Those of the tokens
// that penalties may change have to be among them.
TEST_F(LlamaSampling, ThePenalisedTokensHaveTheirLogits) {
  GenerateOptions repeat = {.sampling = {.temperature = 1.0, .top_k = 2, .repeat_penalty = 1.5}};
  GenerateOptions dry = {.sampling = {.temperature = 1.0, .top_k = 2}};
  dry.sampling.dry.multiplier = 0.5;
  for (const GenerateOptions& options : {repeat, dry}) {
    const Continuation continuation({7, 3, 7}, options, 10);
    EXPECT_EQ(continuation.wanted().named, (std::vector<int32_t>{3, 7}));
    EXPECT_FALSE(continuation.wanted().all);
  }
}

}  // namespace
}  // namespace neuronmm::model
