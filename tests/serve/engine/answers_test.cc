// Tests that the engine gives the same answers as generate(): for a request alone and among others,
// with any chunk size, and for every dtype and form of MLP.

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

class Answers : public model::OnBackend {};
NMM_ON_ALL_BACKENDS(Answers);

TEST_P(Answers, AreTheSameAsThoseOfGenerate) {
  const model::Transformer transformer = make_model(long_config(400), *backend);
  Engine engine(transformer, {});
  std::vector<Request> requests(5);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = model::random_tokens(3 + 50 * static_cast<int64_t>(i), 19, i);
    requests[i].max_new_tokens = 20;
    requests[i].logprobs = 3;
  }
  requests[1].sampling = {.temperature = 1.3, .top_k = 9, .top_p = 0.9, .seed = 5};
  requests[2].sampling = {.repetition_penalty = 1.4, .frequency_penalty = 0.3};
  requests[3].stop_tokens = {3, 5, 8};
  requests[4].max_new_tokens.reset();  // so the answer goes on to the end of the context
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (const Request& request : requests) {
    recorders.push_back(std::make_shared<Recorder>());
    ASSERT_FALSE(engine.submit(request, recorders.back()).refusal);
  }
  for (const auto& recorder : recorders) recorder->wait();
  expect_no_block_in_use(engine);
  engine.abort();  // because a backend may have only one user at a time
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_answer(recorders[i]->answer(), expected_answer(transformer, requests[i]));
    EXPECT_EQ(recorders[i]->usage()->prompt_tokens, std::ssize(requests[i].prompt));
  }
}

TEST_P(Answers, ToOnePromptUseConsecutiveSeedsAndComputeThePromptOnce) {
  const model::Transformer transformer = make_model(long_config(400), *backend);
  // The prompts fill whole blocks or not. With two sequences, not all answers can run together.
  for (const int64_t prompt : {1, 100, 128, 300}) {
    for (const int64_t max_sequences : {16, 2}) {
      SCOPED_TRACE(fmt::format("{} tokens, {} together", prompt, max_sequences));
      Request request;
      request.prompt = model::random_tokens(prompt, 19, 4);
      request.choices = 5;
      request.max_new_tokens = 40;
      request.sampling = {.temperature = 1.5, .presence_penalty = 0.5, .seed = 40};
      request.logprobs = 0;
      request.stop_tokens = {2};
      EngineOptions options;
      options.max_sequences = max_sequences;
      Engine engine(transformer, options);
      const auto recorder = submit_and_wait(engine, request);
      expect_no_block_in_use(engine);
      const Statistics statistics = engine.statistics();
      engine.abort();
      for (int64_t i = 0; i < 5; ++i) {
        SCOPED_TRACE(i);
        expect_answer(recorder->answer(static_cast<size_t>(i)),
                      expected_answer(transformer, request, i));
      }
      // If all answers run together, the prompt is computed once.
      if (max_sequences == 16) {
        int64_t generated = 0;
        for (const ReceivedAnswer& answer : recorder->answers())
          generated += std::ssize(answer.tokens);
        EXPECT_LE(statistics.step_tokens_sum, prompt + generated);
      }
    }
  }
}

TEST_P(Answers, PromptLogprobsAreExact) {
  const model::Transformer transformer = make_model(long_config(700), *backend);
  for (const int64_t length : {1, 2, 129, 400}) {
    SCOPED_TRACE(length);
    Request request;
    request.prompt = model::random_tokens(length, 19, 8);
    request.prompt_logprobs = 2;
    request.max_new_tokens = length == 2 ? 0 : 4;
    Engine engine(transformer, {});
    (void)submit_and_wait(engine,
                          request);  // fills the prefix cache, which must not change the result
    const auto recorder = submit_and_wait(engine, request);
    engine.abort();
    ASSERT_EQ(std::ssize(recorder->prompt_logprobs()), length - 1);
    const Matrix logits = all_logits(transformer, request.prompt);
    for (int64_t i = 0; i + 1 < length; ++i) {
      const model::TokenLogprobs right =
          model::token_logprobs({logits.row(i), 19}, request.prompt[static_cast<size_t>(i) + 1], 2);
      const model::TokenLogprobs& found = recorder->prompt_logprobs()[static_cast<size_t>(i)];
      ASSERT_EQ(found.chosen.id, right.chosen.id);
      ASSERT_EQ(found.chosen.logprob, right.chosen.logprob);
      ASSERT_EQ(found.top[1].logprob, right.top[1].logprob);
    }
    EXPECT_EQ(std::ssize(recorder->answer().tokens), *request.max_new_tokens);
    EXPECT_EQ(recorder->answer().reason, FinishReason::kLength);
  }
}

TEST_P(Answers, ContainNoStopTokenBeforeMinNewTokens) {
  const model::Transformer transformer = make_model(long_config(200), *backend);
  Engine engine(transformer, {});
  Request request;
  request.prompt = {3, 1, 4};
  request.max_new_tokens = 30;
  const std::vector<TokenId> free = submit_and_wait(engine, request)->answer().tokens;
  request.stop_tokens = {free[0], free[6]};
  EXPECT_TRUE(submit_and_wait(engine, request)->answer().tokens.empty());
  request.min_new_tokens = 8;
  const auto recorder = submit_and_wait(engine, request);
  engine.abort();
  const std::vector<TokenId>& tokens = recorder->answer().tokens;
  ASSERT_GE(tokens.size(), 8u);
  for (const TokenId token : tokens) EXPECT_EQ(std::ranges::count(request.stop_tokens, token), 0);
  // The answer equals one that is sampled as if the vocabulary had no stop tokens.
  request.sampling.logit_bias = {{request.stop_tokens[0], -1e6}, {request.stop_tokens[1], -1e6}};
  request.max_new_tokens = 8;
  EXPECT_EQ(std::vector(tokens.begin(), tokens.begin() + 8),
            expected_answer(transformer, request).tokens);
}

// A constraint that allows each token of a set once and the end when none is left.
class EachOnce : public model::TokenConstraint {
 public:
  EachOnce(std::set<TokenId> tokens, TokenId end) : left_(std::move(tokens)), end_(end) {}
  void allowed_tokens(std::span<uint64_t> allowed) override {
    std::ranges::fill(allowed, 0);
    for (const TokenId id : left_) allowed[0] |= uint64_t{1} << id;
    if (left_.empty()) allowed[0] |= uint64_t{1} << end_;
  }
  void advance(TokenId token) override { EXPECT_EQ(left_.erase(token), 1u); }
  bool must_end() const override { return left_.empty() && end_ < 0; }

 private:
  std::set<TokenId> left_;
  const TokenId end_;  // the stop token, or -1 for an answer that ends without one
};

TEST_P(Answers, FollowTheirConstraint) {
  const model::Transformer transformer = make_model(long_config(200), *backend);
  for (const TokenId end : {-1, 18}) {
    for (const double temperature : {0.0, 2.0}) {
      SCOPED_TRACE(fmt::format("end {}, temperature {}", end, temperature));
      const std::set<TokenId> tokens = {1, 4, 9, 16, 17};
      Request request;
      request.prompt = {5, 6};
      request.choices = 3;
      request.sampling = {.temperature = temperature, .top_k = 2, .seed = 1};
      request.stop_tokens = {18};
      request.min_new_tokens = 50;  // has no effect when the constraint allows only the end
      request.logprobs = 0;
      request.make_constraint = [&] { return std::make_unique<EachOnce>(tokens, end); };
      Engine engine(transformer, {});
      const auto recorder = submit_and_wait(engine, request);
      engine.abort();
      for (size_t i = 0; i < 3; ++i) {
        const ReceivedAnswer& answer = recorder->answer(i);
        EXPECT_EQ(std::set(answer.tokens.begin(), answer.tokens.end()), tokens);
        EXPECT_EQ(answer.tokens.size(), tokens.size());
        EXPECT_EQ(answer.reason, FinishReason::kStop);
        EXPECT_EQ(answer.stop_token, end < 0 ? std::nullopt : std::optional(end));
      }
      // The log-probabilities are the model's, without the constraint. The first greedy token is
      // the most likely one of those allowed.
      const Matrix logits = all_logits(transformer, request.prompt);
      const auto first = recorder->answer().tokens[0];
      EXPECT_EQ(recorder->answer().logprobs[0].chosen.logprob,
                model::token_logprobs({logits.row(1), 19}, first, 0).chosen.logprob);
      if (temperature > 0) continue;
      for (const TokenId id : tokens) EXPECT_GE(logits.row(1)[first], logits.row(1)[id]);
    }
  }
}

TEST_P(Answers, AreEmptyIfTheConstraintIsCompleteAtOnce) {
  const model::Transformer transformer = make_model(long_config(200), *backend);
  Engine engine(transformer, {});
  Request request;
  request.prompt = {5, 6};
  request.make_constraint = [] { return std::make_unique<EachOnce>(std::set<TokenId>{}, -1); };
  const auto recorder = submit_and_wait(engine, request);
  EXPECT_TRUE(recorder->answer().tokens.empty());
  EXPECT_EQ(recorder->answer().reason, FinishReason::kStop);
}

struct Kind {
  std::string name;
  DType dtype = DType::kF32;
  std::optional<io::Quantization> quantization = {};
  std::string form = "";
  io::MlpShape shape = {};
  io::Architecture architecture = io::Architecture::kLlama;
};

std::vector<Kind> kinds() {
  using enum io::Architecture;
  return {{"fp32"},
          {"bf16", DType::kBF16},
          {"int8", DType::kF32, io::Quantization{}},
          {"int6", DType::kBF16, io::Quantization{{6}}},
          {"int4", DType::kBF16, io::Quantization{{4, 16}}},
          {"uv", DType::kBF16, {}, "uv", {.gate = 20, .up = 30, .down = 25}},
          {"pivoted", DType::kF32, {}, "pivoted", {.gate = 20, .up = 30, .down = 25}},
          {"narrow", DType::kF32, {}, "narrow", {.down = 30, .input = 40}},
          {"neurons", DType::kF32, {}, "neurons", {.neurons = 50}},
          {"mixed4", DType::kF32, io::Quantization{{4, 32}}, "mixed", {0, 0, 30, 40, 50}},
          {"window", DType::kBF16, {}, "", {}, kMistral},
          {"qwen2", DType::kBF16, {}, "", {}, kQwen2},
          {"qwen3", DType::kBF16, io::Quantization{}, "", {}, kQwen3},
          {"olmoe", DType::kBF16, {}, "", {}, kOlmoe},
          {"olmoe4", DType::kF32, io::Quantization{{4, 32}}, "", {}, kOlmoe},
          {"gpt_oss", DType::kF32, {}, "", {}, kGptOss}};
}

// Makes a model whose rows have several groups of the low-bit formats.
model::Transformer make_kind(const Kind& kind, const ops::Backend& backend) {
  io::ModelConfig config = long_config(1500, kind.architecture);
  config.hidden_size = 96;
  config.intermediate_size = 144;
  if (config.experts) config.experts->width = config.intermediate_size;
  config.dtype = kind.dtype;
  if (kind.architecture == io::Architecture::kMistral) config.fill_layers({.window = 150});
  if (!kind.form.empty()) {
    config.compression = model::tiny_record(kind.form, {kind.shape, kind.shape});
  }
  model::TestTensors tensors = model::random_tensors(config, 5);
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 2 || tensor.dtype != DType::kF32) continue;
    for (float& value : tensor.values) value *= 0.4f;
  }
  if (kind.quantization) {
    tensors = model::quantized_tensors(config, tensors, *kind.quantization);
    config.quantization = kind.quantization;
  } else {
    for (auto& [name, tensor] : tensors) {
      if (tensor.dtype == DType::kF32) tensor.dtype = kind.dtype;
    }
  }
  auto transformer = load_tiny(config, tensors, backend);
  NMM_CHECK(transformer.ok());
  return std::move(transformer).value();
}

class EveryModelKind : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EveryModelKind, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return kind.param.name; });

// Expects equal bits in all log-probabilities when other requests run at the same time and take a
// part of each chunk. The prompt is longer than the largest piece that attention computes at once.
TEST_P(EveryModelKind, AnswersDoNotDependOnOtherRequests) {
  const auto backend = cpu::make_backend();
  const model::Transformer transformer = make_kind(GetParam(), *backend);
  Request request;
  request.prompt = model::random_tokens(1200, 19, 1);
  request.max_new_tokens = 24;
  request.logprobs = 2;
  request.sampling = {.temperature = 0.9, .seed = 3};
  const model::Generation expected = expected_answer(transformer, request);
  for (const int neighbours : {0, 1, 2, 16}) {
    SCOPED_TRACE(neighbours);
    EngineOptions options;
    options.chunk_tokens = 200 + neighbours;
    Engine engine(transformer, options);
    std::vector<std::shared_ptr<Recorder>> others;
    const auto submit_neighbour = [&] {
      Request other;
      other.prompt = model::random_tokens(10 + 37 * std::ssize(others), 19, others.size());
      other.max_new_tokens = 10 + std::ssize(others);
      others.push_back(std::make_shared<Recorder>());
      ASSERT_FALSE(engine.submit(other, others.back()).refusal);
    };
    for (int i = 0; i < neighbours / 2; ++i) submit_neighbour();
    const auto recorder = std::make_shared<Recorder>();
    ASSERT_FALSE(engine.submit(request, recorder).refusal);
    while (std::ssize(others) < neighbours) submit_neighbour();
    recorder->wait();
    expect_answer(recorder->answer(), expected);
  }
}

}  // namespace
}  // namespace neuronmm::serve
