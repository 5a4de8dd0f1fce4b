// Tests the embeddings of prompts against hidden states that an independent transformer computes,
// alone and among answers, for prompts of one and of several steps, and after a preemption.

#include <cmath>

#include <gtest/gtest.h>

#include "model/naive_transformer.h"
#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

constexpr uint64_t kSeed = 77;  // of the weights

// A listener that keeps the embedding.
class EmbeddingRecorder : public Recorder {
 public:
  void on_embedding(std::vector<float> embedding) override { values = std::move(embedding); }
  std::vector<float> values;
};

// Returns the hidden states after the final norm, one row per token.
std::vector<std::vector<double>> naive_states(const io::ModelConfig& config,
                                              const std::vector<TokenId>& tokens) {
  const model::TestTensors tensors = model::random_tensors(config, kSeed);
  auto states = model::naive_mlp_rows(config, tensors, tokens).back().hidden;
  const std::vector<float>& gains = tensors.at("model.norm.weight").values;
  for (std::vector<double>& state : states) {
    double squares = 0.0;
    for (const double value : state) squares += value * value;
    const double root =
        std::sqrt(squares / static_cast<double>(state.size()) + config.rms_norm_eps);
    for (size_t i = 0; i < state.size(); ++i) state[i] *= double{gains[i]} / root;
  }
  return states;
}

std::vector<double> naive_embedding(const io::ModelConfig& config,
                                    const std::vector<TokenId>& tokens, Pooling pooling) {
  const auto states = naive_states(config, tokens);
  if (pooling == Pooling::kLast) return states.back();
  std::vector<double> mean(states.front().size());
  for (const auto& state : states) {
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += state[i] / static_cast<double>(states.size());
  }
  return mean;
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  // The states have values around 1, and the transformer computes in fp32.
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
}

Request embedding_of(int64_t tokens, Pooling pooling, uint64_t seed = 5) {
  Request request;
  request.prompt = model::random_tokens(tokens, 19, seed);
  request.embedding = pooling;
  return request;
}

std::shared_ptr<EmbeddingRecorder> submit(Engine& engine, const Request& request) {
  auto recorder = std::make_shared<EmbeddingRecorder>();
  EXPECT_FALSE(engine.submit(request, recorder).refusal);
  return recorder;
}

class Embeddings : public model::OnBackend {};
NMM_ON_ALL_BACKENDS(Embeddings);

TEST_P(Embeddings, AreTheHiddenStatesOfAnIndependentTransformer) {
  const io::ModelConfig config = long_config(400, io::Architecture::kQwen3);
  const model::Transformer transformer = make_model(config, *backend, kSeed);
  for (const int64_t chunk : {128, 7}) {
    EngineOptions options;
    options.chunk_tokens = chunk;
    Engine engine(transformer, options);
    for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
      for (const int64_t tokens : {1, 2, 150}) {
        SCOPED_TRACE(fmt::format("{} tokens, chunks of {}", tokens, chunk));
        const Request request = embedding_of(tokens, pooling);
        const auto recorder = submit(engine, request);
        recorder->wait();
        EXPECT_EQ(recorder->answer().reason, FinishReason::kStop);
        EXPECT_TRUE(recorder->answer().tokens.empty());
        expect_near(recorder->values, naive_embedding(config, request.prompt, pooling));
      }
    }
    expect_no_block_in_use(engine);
  }
}

// The prompts share prefixes, so that the last token's state can come from cached keys and values.
// The mean needs the states of all tokens and cannot.
TEST_P(Embeddings, DoNotDependOnWhatElseRuns) {
  const model::Transformer transformer = make_model(long_config(600), *backend, kSeed);
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(embedding_of(140 + 60 * i, i % 2 == 0 ? Pooling::kMean : Pooling::kLast));
    Request answer;
    answer.prompt = requests.back().prompt;
    answer.max_new_tokens = 20;
    requests.push_back(answer);
  }
  std::vector<std::vector<float>> alone;
  for (const Request& request : requests) {
    Engine engine(transformer, {});
    const auto recorder = submit(engine, request);
    recorder->wait();
    alone.push_back(recorder->values);
  }
  EngineOptions options;
  options.chunk_tokens = 50;
  Engine engine(transformer, options);
  std::vector<std::shared_ptr<EmbeddingRecorder>> together;
  for (const Request& request : requests) together.push_back(submit(engine, request));
  for (size_t i = 0; i < requests.size(); ++i) {
    together[i]->wait();
    EXPECT_EQ(together[i]->values, alone[i]) << i;
    const bool mean = requests[i].embedding == Pooling::kMean;
    EXPECT_TRUE(!mean || together[i]->usage()->cached_tokens == 0) << i;
  }
  EXPECT_GT(engine.statistics().prefix_hits, 0);
  expect_no_block_in_use(engine);
}

// An answer that grows takes the memory of the embeddings after it.
TEST(PreemptedEmbeddings, AreTheSame) {
  const auto backend = cpu::make_backend();
  const model::Transformer transformer = make_model(long_config(3000), *backend, kSeed);
  const Request request = embedding_of(500, Pooling::kMean);
  std::vector<float> alone;
  {
    Engine engine(transformer, {});
    const auto recorder = submit(engine, request);
    recorder->wait();
    alone = recorder->values;
  }
  EngineOptions options;
  options.kv_cache_bytes = 6 * block_bytes(transformer);
  options.chunk_tokens = 3;
  Engine engine(transformer, options);
  Request growing;
  growing.prompt = model::random_tokens(120, 19, 9);
  growing.max_new_tokens = 300;
  const auto answer = submit(engine, growing);
  const auto recorder = submit(engine, request);
  recorder->wait();
  answer->wait();
  EXPECT_GT(engine.statistics().preemptions, 0);
  EXPECT_EQ(recorder->values, alone);
}

TEST(EmbeddingRequests, EndWhenTheyAreCancelled) {
  SteppedBackend backend{cpu::make_backend()};
  const model::Transformer transformer = make_model(long_config(3000), backend, kSeed);
  EngineOptions options;
  options.chunk_tokens = 10;
  backend.hold();
  Engine engine(transformer, options);
  const auto recorder = std::make_shared<EmbeddingRecorder>();
  const Admission admission = engine.submit(embedding_of(1000, Pooling::kMean), recorder);
  backend.step(3);
  engine.cancel(admission.id);
  backend.release();
  recorder->wait();
  EXPECT_EQ(recorder->answer().reason, FinishReason::kCancelled);
  EXPECT_TRUE(recorder->values.empty());
  EXPECT_LT(backend.tokens_of_steps().size(), 10u);
  expect_no_block_in_use(engine);
}

TEST(EmbeddingRequests, MayFillTheContextAndHaveOneChoice) {
  const auto backend = cpu::make_backend();
  const model::Transformer transformer = make_model(long_config(100), *backend, kSeed);
  Engine engine(transformer, {});
  const auto recorder = submit(engine, embedding_of(100, Pooling::kLast));
  recorder->wait();
  EXPECT_EQ(recorder->values.size(), 16u);
  const auto refusal_of = [&](const Request& request) {
    return engine.submit(request, std::make_shared<Recorder>()).refusal;
  };
  EXPECT_EQ(refusal_of(embedding_of(101, Pooling::kLast)), Refusal::kContextLength);
  Request two = embedding_of(3, Pooling::kLast);
  two.choices = 2;
  EXPECT_EQ(refusal_of(two), Refusal::kInvalid);
}

}  // namespace
}  // namespace neuronmm::serve
