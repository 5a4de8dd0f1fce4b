// Tests that answers of a model with two RoPE tables (longrope) do not change when sequences
// outgrow the table for short texts in the engine: alone, beside short ones, behind a common
// prefix, and after a preemption.

#include <gtest/gtest.h>

#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

// The tokens of the model's original context. It is no multiple of a block of keys and values.
constexpr int64_t kOriginal = 300;

io::ModelConfig two_tables() {
  io::ModelConfig config = long_config(1000);
  const auto pairs = static_cast<size_t>(config.head_dim / 2);
  config.ropes = {{.scaling = io::LongRopeScaling{.short_factor = std::vector<double>(pairs, 1.0),
                                                  .long_factor = std::vector<double>(pairs, 5.0),
                                                  .original_max_position_embeddings = kOriginal,
                                                  .attention_factor = 1.25}}};
  return config;
}

class LongRope : public model::OnBackend {
 protected:
  // Makes a prompt of the first `tokens` tokens of one fixed text.
  static Request request_of(int64_t tokens, int64_t max_new_tokens, uint64_t seed) {
    Request request;
    request.prompt = model::random_tokens(900, 19, 1);
    request.prompt.resize(static_cast<size_t>(tokens));
    request.max_new_tokens = max_new_tokens;
    request.logprobs = 1;
    request.sampling = {.temperature = 1.0, .seed = seed};
    return request;
  }

  const model::Transformer transformer = make_model(two_tables(), *backend);
};
NMM_ON_ALL_BACKENDS(LongRope);

// Without this the other tests would pass with one table.
TEST_P(LongRope, TheTwoTablesGiveOtherAnswers) {
  io::ModelConfig config = two_tables();
  std::get<io::LongRopeScaling>(config.ropes[0].scaling).original_max_position_embeddings = 1000;
  const model::Transformer one_table = make_model(config, *backend);
  const Request request = request_of(kOriginal + 20, 30, 1);
  EXPECT_NE(expected_answer(one_table, request).tokens,
            expected_answer(transformer, request).tokens);
}

TEST_P(LongRope, AnAnswerThatOutgrowsTheTableIsThatOfGenerate) {
  Engine engine(transformer, {});
  for (const int64_t prompt : {kOriginal - 25, kOriginal - 1, kOriginal, kOriginal + 1}) {
    SCOPED_TRACE(prompt);
    const Request request = request_of(prompt, 50, 3);
    expect_answer(submit_and_wait(engine, request)->answer(),
                  expected_answer(transformer, request));
  }
  expect_no_block_in_use(engine);
}

TEST_P(LongRope, KeysOfTheOtherTableAreNoPrefix) {
  Engine engine(transformer, {});
  const auto cached = [&](int64_t prompt) {
    const Request request = request_of(prompt, 5, 1);
    const auto recorder = submit_and_wait(engine, request);
    expect_answer(recorder->answer(), expected_answer(transformer, request));
    return recorder->usage()->cached_tokens;
  };
  EXPECT_EQ(cached(200), 0);
  EXPECT_EQ(cached(kOriginal - 20), 200);
  EXPECT_EQ(cached(kOriginal + 100), 0);
  EXPECT_EQ(cached(kOriginal + 120), kOriginal + 100);
  EXPECT_EQ(cached(150), 149);
}

// The memory holds about two of the answers, and all of them outgrow the table, but one.
TEST_P(LongRope, APreemptionChangesNoAnswer) {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 5; ++i)
    requests.push_back(request_of(150 + 35 * static_cast<int64_t>(i), 200, i));
  requests.push_back(request_of(40, 100, 9));
  for (const int64_t chunk : {37, 512}) {
    EngineOptions options;
    options.kv_cache_bytes = 8 * block_bytes(transformer);
    options.chunk_tokens = chunk;
    Engine engine(transformer, options);
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (const Request& request : requests) {
      recorders.push_back(std::make_shared<Recorder>());
      const Admission admission = engine.submit(request, recorders.back());
      ASSERT_FALSE(admission.refusal) << admission.message;
    }
    for (const auto& recorder : recorders) recorder->wait();
    EXPECT_GT(engine.statistics().preemptions, 0);
    expect_no_block_in_use(engine);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      expect_answer(recorders[i]->answer(), expected_answer(transformer, requests[i]));
    }
  }
}

}  // namespace
}  // namespace neuronmm::serve
