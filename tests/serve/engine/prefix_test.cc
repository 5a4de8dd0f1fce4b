// Tests that requests with a common prefix and the same salt share its keys and values, and that
// their answers do not change.

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
  // Checks the answer and returns how many tokens of the prompt came from the cache.
  int64_t cached(Engine& engine, const Request& request) {
    const auto recorder = submit_and_wait(engine, request);
    expect_answer(recorder->answer(), expected_answer(transformer, request));
    return recorder->usage()->cached_tokens;
  }

  const model::Transformer transformer = make_model(long_config(1000), *backend);
};
NMM_ON_ALL_BACKENDS(Prefixes);

TEST_P(Prefixes, WholeBlocksOfACommonPrefixAreComputedOnce) {
  Engine engine(transformer, {});
  EXPECT_EQ(cached(engine, request_of(700, 9, 1)), 0);
  EXPECT_EQ(cached(engine, request_of(700, 40, 2)), 640);
  EXPECT_EQ(cached(engine, request_of(300, 200, 3)), 256);
  EXPECT_EQ(cached(engine, request_of(300, 200, 3)), 384);  // the whole blocks of 500 tokens
  EXPECT_EQ(cached(engine, request_of(0, 300, 4)), 0);
  // The last token is always computed, even if its block is cached.
  EXPECT_EQ(cached(engine, request_of(512, 0, 5)), 384);
  EXPECT_EQ(cached(engine, request_of(513, 0, 6)), 512);
  EXPECT_EQ(cached(engine, request_of(127, 1, 7)), 0);
  const Statistics statistics = engine.statistics();
  EXPECT_EQ(statistics.prefix_hits, 640 + 256 + 384 + 384 + 512);
  EXPECT_EQ(statistics.prefix_queries, 709 + 740 + 500 + 500 + 300 + 512 + 513 + 128);
  EXPECT_EQ(statistics.cached_prompt_tokens, statistics.prefix_hits);
  expect_no_block_in_use(engine);
}

TEST_P(Prefixes, BlocksOfAnswersAreReused) {
  Engine engine(transformer, {});
  Request first = request_of(250, 0, 1);
  first.max_new_tokens = 200;
  const auto recorder = submit_and_wait(engine, first);
  Request second = request_of(250, 0, 1);
  for (const TokenId token : recorder->answer().tokens) second.prompt.push_back(token);
  second.prompt.push_back(3);
  EXPECT_EQ(cached(engine, second), 384);  // the whole blocks of 449 tokens that were computed
}

TEST_P(Prefixes, AreNotSharedBetweenSalts) {
  Engine engine(transformer, {});
  Request request = request_of(600, 10, 1);
  EXPECT_EQ(cached(engine, request), 0);
  request.cache_salt = "a";
  EXPECT_EQ(cached(engine, request), 0);
  EXPECT_EQ(cached(engine, request), 512);
  request.cache_salt = "b";
  EXPECT_EQ(cached(engine, request), 0);
  request.cache_salt = "";
  EXPECT_EQ(cached(engine, request), 512);
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
  // The steps compute one whole prompt, seven times the tokens after its last whole block, and one
  // decoded token per answer. Some chunks may be computed twice, since the requests start at the
  // same time.
  EXPECT_LE(engine.statistics().step_tokens_sum, 800 + 7 * (800 - 768) + 8 + 512);
}

TEST_P(Prefixes, AreEvictedFromTheirEndWhenMemoryIsShort) {
  EngineOptions options;
  options.kv_cache_bytes = 6 * block_bytes(transformer);
  Engine engine(transformer, options);
  EXPECT_EQ(engine.statistics().kv_blocks, 6);
  EXPECT_EQ(cached(engine, request_of(600, 0, 1)), 0);  // uses 5 blocks, 4 of which are complete
  expect_no_block_in_use(engine);
  EXPECT_EQ(engine.statistics().kv_blocks_cached, 4);
  EXPECT_EQ(cached(engine, request_of(0, 300, 2)), 0);  // needs 3, so the last of the 4 is evicted
  EXPECT_EQ(cached(engine, request_of(600, 0, 3)), 384);
  EXPECT_EQ(cached(engine, request_of(0, 700, 4)), 0);  // needs all blocks
  EXPECT_EQ(cached(engine, request_of(600, 0, 5)), 0);
  expect_no_block_in_use(engine);
}

}  // namespace
}  // namespace neuronmm::serve
