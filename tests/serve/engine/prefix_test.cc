// Tests that requests with a common prefix and the same salt share its keys and values, and that
// their answers do not change.

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

class Prefixes : public model::OnBackend {
 protected:
  // Makes a prompt of the first `same` tokens of one fixed text and `other` random tokens.
  static Request request_of(int64_t same, int64_t other, uint64_t seed) {
    Request request;
    request.prompt = model::random_tokens(900, 19, 1);
    request.prompt.resize(static_cast<size_t>(same));
    for (const TokenId token : model::random_tokens(other, 19, seed)) {
      request.prompt.push_back(token);
    }
    request.max_new_tokens = 12;
    request.logprobs = 1;
    request.sampling = {.temperature = 1.0, .seed = seed};
    return request;
  }
  // Makes a prompt of random tokens that begins differently from that text.
  static Request without_first_token(int64_t tokens, uint64_t seed) {
    Request request = request_of(0, tokens, seed);
    request.prompt[0] = (model::random_tokens(1, 19, 1)[0] + static_cast<TokenId>(seed)) % 19;
    return request;
  }
  // Checks the answer and returns how many tokens of the prompt came from the cache.
  int64_t cached(Engine& engine, const Request& request) {
    const auto recorder = submit_and_wait(engine, request);
    expect_answer(recorder->answer(), expected_answer(transformer, request));
    return recorder->usage()->cached_tokens;
  }

  const model::Transformer transformer = make_model(long_config(1000), *backend);
};
NMM_ON_ALL_BACKENDS(Prefixes);

TEST_P(Prefixes, ACommonPrefixIsComputedOnce) {
  Engine engine(transformer, {});
  EXPECT_EQ(cached(engine, request_of(700, 9, 1)), 0);
  EXPECT_EQ(cached(engine, request_of(700, 40, 2)), 700);
  EXPECT_EQ(cached(engine, request_of(300, 200, 3)), 300);
  EXPECT_EQ(cached(engine, request_of(300, 200, 3)), 499);  // all tokens but the last
  EXPECT_EQ(cached(engine, request_of(512, 0, 5)), 511);
  EXPECT_EQ(cached(engine, request_of(513, 0, 6)), 512);
  EXPECT_EQ(cached(engine, request_of(1, 1, 7)), 1);
  const Statistics statistics = engine.statistics();
  EXPECT_EQ(statistics.prefix_hits, 700 + 300 + 499 + 511 + 512 + 1);
  EXPECT_EQ(statistics.prefix_queries, 709 + 740 + 500 + 500 + 512 + 513 + 2);
  EXPECT_EQ(statistics.cached_prompt_tokens, statistics.prefix_hits);
  expect_no_block_in_use(engine);
}

// The last token of an answer that ends at its limit has no keys and values. It is the only token
// of the first turns that the next turn computes.
TEST_P(Prefixes, ANextTurnComputesOneTokenBeyondItsOwn) {
  Engine engine(transformer, {});
  Request request = request_of(5, 0, 1);
  for (int turn = 0; turn < 40; ++turn) {
    request.max_new_tokens = 1 + turn % 14;
    const auto recorder = submit_and_wait(engine, request);
    EXPECT_EQ(recorder->usage()->cached_tokens,
              turn == 0 ? 0 : std::ssize(request.prompt) - 4 - turn % 3)
        << "turn " << turn;
    expect_answer(recorder->answer(), expected_answer(transformer, request));
    for (const TokenId token : recorder->answer().tokens) request.prompt.push_back(token);
    for (int i = 0; i < 3 + (turn + 1) % 3; ++i)
      request.prompt.push_back(static_cast<TokenId>((turn + i) % 19));
  }
  expect_no_block_in_use(engine);
}

TEST_P(Prefixes, AreNotSharedBetweenSalts) {
  Engine engine(transformer, {});
  Request request = request_of(600, 10, 1);
  EXPECT_EQ(cached(engine, request), 0);
  request.cache_salt = "a";
  EXPECT_EQ(cached(engine, request), 0);
  EXPECT_EQ(cached(engine, request), 609);
  request.cache_salt = "b";
  EXPECT_EQ(cached(engine, request), 0);
  request.cache_salt = "";
  EXPECT_EQ(cached(engine, request), 609);
}

int64_t common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

// Requests that branch off from earlier ones at random places. With enough memory, each of them
// computes exactly the tokens that no earlier request of its salt has computed.
class RandomPrefixes : public Prefixes {
 protected:
  struct Past {
    std::string salt;
    std::vector<TokenId> tokens;  // the prompt and the answer without its last token
  };

  Request branch() {
    Request request = request_of(0, 1 + pick(60), random_());
    request.max_new_tokens = 1 + pick(20);
    request.cache_salt = pick(4) == 0 ? "salt" : "";
    if (past_.empty() || pick(8) == 0) return request;
    std::vector<TokenId> tokens = past_[static_cast<size_t>(pick(std::ssize(past_)))].tokens;
    tokens.resize(pick(3) == 0 ? tokens.size() : static_cast<size_t>(pick(std::ssize(tokens))));
    tokens.resize(std::min<size_t>(tokens.size(), 600));
    request.prompt.insert(request.prompt.begin(), tokens.begin(), tokens.end());
    return request;
  }
  int64_t longest_common(const Request& request) const {
    int64_t longest = 0;
    for (const Past& past : past_) {
      if (past.salt == request.cache_salt)
        longest = std::max(longest, common_length(request.prompt, past.tokens));
    }
    return std::min(longest, std::ssize(request.prompt) - 1);
  }
  void remember(const Request& request, const ReceivedAnswer& answer) {
    Past past{request.cache_salt, request.prompt};
    past.tokens.insert(past.tokens.end(), answer.tokens.begin(), answer.tokens.end() - 1);
    past_.push_back(std::move(past));
  }
  int64_t pick(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }

  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
  std::vector<Past> past_;
};
NMM_ON_ALL_BACKENDS(RandomPrefixes);

TEST_P(RandomPrefixes, ComputeExactlyWhatIsNew) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  Engine engine(transformer, {});
  for (int i = 0; i < 60; ++i) {
    const Request request = branch();
    const int64_t before = engine.statistics().step_tokens_sum;
    const auto recorder = submit_and_wait(engine, request);
    expect_answer(recorder->answer(), expected_answer(transformer, request));
    expect_no_block_in_use(engine);
    ASSERT_EQ(recorder->usage()->cached_tokens, longest_common(request)) << "request " << i;
    ASSERT_EQ(engine.statistics().step_tokens_sum - before,
              std::ssize(request.prompt) - longest_common(request) +
                  std::ssize(recorder->answer().tokens) - 1);
    remember(request, recorder->answer());
  }
}

// In a small memory, blocks are evicted, sequences are preempted and requests run together. The
// answers stay the same.
TEST_P(RandomPrefixes, KeepAnswersInASmallMemory) {
  SCOPED_TRACE(fmt::format("seed {}", seed_));
  EngineOptions options;
  options.kv_cache_bytes = 7 * block_bytes(transformer);
  Engine engine(transformer, options);
  for (int round = 0; round < 15; ++round) {
    std::vector<std::pair<Request, std::shared_ptr<Recorder>>> together;
    for (int i = 0; i < 4; ++i) {
      together.emplace_back(branch(), std::make_shared<Recorder>());
      ASSERT_FALSE(engine.submit(together.back().first, together.back().second).refusal);
    }
    // A model computes for one thread at a time, so the engine has to be done first.
    for (const auto& [request, recorder] : together) recorder->wait();
    for (const auto& [request, recorder] : together) {
      expect_answer(recorder->answer(), expected_answer(transformer, request));
      remember(request, recorder->answer());
    }
    expect_no_block_in_use(engine);
    ASSERT_LE(engine.statistics().kv_blocks_cached, 7);
  }
}

// The memory has room for the conversation and for nothing else, not even for the copy of a block.
TEST_P(Prefixes, ANextTurnTakesOverABlockIfThereIsNoRoomForACopy) {
  EngineOptions options;
  options.kv_cache_bytes = 2 * block_bytes(transformer);
  Engine engine(transformer, options);
  Request request = request_of(40, 0, 1);
  for (int turn = 0; turn < 10; ++turn) {
    const auto recorder = submit_and_wait(engine, request);
    EXPECT_EQ(recorder->usage()->cached_tokens, turn == 0 ? 0 : std::ssize(request.prompt) - 5);
    expect_answer(recorder->answer(), expected_answer(transformer, request));
    for (const TokenId token : recorder->answer().tokens) request.prompt.push_back(token);
    for (TokenId i = 0; i < 4; ++i) request.prompt.push_back(i);
  }
}

TEST(PrefixesTogether, RequestsThatArriveTogetherComputeTheirPrefixOnce) {
  SteppedBackend backend(cpu::make_backend());
  const model::Transformer transformer = make_model(long_config(1000), backend);
  backend.hold();
  Engine engine(transformer, {});
  Request request;
  request.prompt = model::random_tokens(800, 19, 1);
  request.max_new_tokens = 2;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (TokenId i = 0; i < 8; ++i) {
    request.prompt.back() = i;
    recorders.push_back(std::make_shared<Recorder>());
    ASSERT_FALSE(engine.submit(request, recorders.back()).refusal);
  }
  backend.release();
  for (const auto& recorder : recorders) recorder->wait();
  expect_no_block_in_use(engine);
  // The steps compute one whole prompt, at most seven times the tokens after its last whole block,
  // and one decoded token per answer. Some chunks may be computed twice, since the requests start
  // at the same time.
  EXPECT_LE(engine.statistics().step_tokens_sum, 800 + 7 * (800 - 768) + 8 + 512);
}

TEST_P(Prefixes, AreEvictedFromTheirEndWhenMemoryIsShort) {
  EngineOptions options;
  options.kv_cache_bytes = 6 * block_bytes(transformer);
  Engine engine(transformer, options);
  EXPECT_EQ(engine.statistics().kv_blocks, 6);
  EXPECT_EQ(cached(engine, request_of(600, 0, 1)), 0);  // uses 5 blocks, 4 of which are complete
  expect_no_block_in_use(engine);
  EXPECT_EQ(engine.statistics().kv_blocks_cached, 5);
  EXPECT_EQ(cached(engine, without_first_token(300, 2)), 0);  // needs 3, so 2 of the 5 are evicted
  EXPECT_EQ(cached(engine, request_of(600, 0, 3)), 384);
  EXPECT_EQ(cached(engine, without_first_token(700, 4)), 0);  // needs all blocks
  EXPECT_EQ(cached(engine, request_of(600, 0, 5)), 0);
  expect_no_block_in_use(engine);
}

}  // namespace
}  // namespace neuronmm::serve
