// Tests of the requests that the engine refuses when they are submitted.

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

class Refusals : public testing::Test {
 protected:
  Admission submit(Engine& engine, const Request& request) {
    return engine.submit(request,
                         std::make_shared<Recorder>(std::max<int64_t>(1, request.choices)));
  }
  void expect_refusal(Engine& engine, const Request& request, Refusal reason,
                      const std::vector<std::string>& parts) {
    const Admission admission = submit(engine, request);
    EXPECT_EQ(admission.refusal, reason) << admission.message;
    for (const std::string& part : parts) EXPECT_THAT(admission.message, testing::HasSubstr(part));
  }
  static Request prompt_of(int64_t tokens) {
    Request request;
    request.prompt = model::random_tokens(tokens, 19, 1);
    request.max_new_tokens = 3;
    return request;
  }

  SteppedBackend backend{cpu::make_backend()};
  const model::Transformer transformer = make_model(long_config(1000), backend);
};

TEST_F(Refusals, InvalidValuesAreNamed) {
  Engine engine(transformer, {});
  const auto expect_invalid = [&](const std::vector<std::string>& parts, const auto& spoil) {
    Request request = prompt_of(3);
    spoil(request);
    expect_refusal(engine, request, Refusal::kInvalid, parts);
  };
  expect_invalid({"empty"}, [](Request& r) { r.prompt.clear(); });
  expect_invalid({"19", "position 1"}, [](Request& r) { r.prompt[1] = 19; });
  expect_invalid({"-1", "position 0"}, [](Request& r) { r.prompt[0] = -1; });
  expect_invalid({"choices", "0"}, [](Request& r) { r.choices = 0; });
  expect_invalid({"choices", "128", "129"}, [](Request& r) { r.choices = 129; });
  expect_invalid({"max_new_tokens", "-1"}, [](Request& r) { r.max_new_tokens = -1; });
  expect_invalid({"min_new_tokens", "-2"}, [](Request& r) { r.min_new_tokens = -2; });
  expect_invalid({"logprobs", "-3"}, [](Request& r) { r.logprobs = -3; });
  expect_invalid({"prompt_logprobs", "-3"}, [](Request& r) { r.prompt_logprobs = -3; });
  expect_invalid({"temperature", "nan"}, [](Request& r) { r.sampling.temperature = std::nan(""); });
  expect_invalid({"temperature", "-1"}, [](Request& r) { r.sampling.temperature = -1; });
  expect_invalid({"top_k", "-1"}, [](Request& r) { r.sampling.top_k = -1; });
  expect_invalid({"top_p", "1.5"}, [](Request& r) { r.sampling.top_p = 1.5; });
  expect_invalid({"min_p", "-0.5"}, [](Request& r) { r.sampling.min_p = -0.5; });
  expect_invalid({"repetition_penalty", "0"},
                 [](Request& r) { r.sampling.repetition_penalty = 0; });
  expect_invalid({"frequency_penalty", "inf"}, [](Request& r) {
    r.sampling.frequency_penalty = std::numeric_limits<double>::infinity();
  });
  expect_invalid({"presence_penalty"}, [](Request& r) { r.sampling.presence_penalty = -1e9; });
  expect_invalid({"bias", "19", "18"}, [](Request& r) { r.sampling.logit_bias = {{19, 1}}; });
  expect_invalid({"logit_bias", "nan"}, [](Request& r) {
    r.sampling.logit_bias = {{1, std::nan("")}};
  });
  expect_invalid({"logit_bias", "-10000000000"}, [](Request& r) {
    r.sampling.logit_bias = {{1, -1e10}};
  });
  EXPECT_FALSE(submit(engine, prompt_of(3)).refusal);
  Request forbids = prompt_of(3);
  forbids.sampling.logit_bias = {{1, -kLargestBias}};
  EXPECT_FALSE(submit(engine, forbids).refusal);
}

TEST_F(Refusals, PromptsThatLeaveNoContextForAnAnswer) {
  EngineOptions options;
  Engine of_model(transformer, options);
  expect_refusal(of_model, prompt_of(1000), Refusal::kContextLength,
                 {"1000 tokens", "at most 999"});
  options.context_tokens = 300;
  Engine shorter(transformer, options);
  expect_refusal(shorter, prompt_of(300), Refusal::kContextLength, {"300 tokens", "at most 299"});
  Request all = prompt_of(300);
  all.max_new_tokens = 0;
  EXPECT_TRUE(submit_and_wait(shorter, all)->answer().tokens.empty());
  Request beyond = prompt_of(301);
  beyond.max_new_tokens = 0;
  expect_refusal(shorter, beyond, Refusal::kContextLength, {"301 tokens", "at most 300"});
  const auto recorder = submit_and_wait(shorter, prompt_of(299));
  EXPECT_EQ(recorder->answer().tokens.size(), 1u);
  EXPECT_EQ(recorder->answer().reason, FinishReason::kLength);
}

// The memory of keys and values is never exceeded. When it is full, an answer ends as it does at
// the end of the context.
TEST_F(Refusals, PromptsThatNeverFitIntoMemory) {
  EngineOptions options;
  options.kv_cache_bytes = 3 * block_bytes(transformer) - 1;
  Engine engine(transformer, options);
  EXPECT_EQ(engine.statistics().kv_blocks, 2);
  EXPECT_EQ(sequence_capacity(transformer, options).tokens(), 256);
  expect_refusal(engine, prompt_of(256), Refusal::kNeverFits, {"256 tokens", "room for 256"});
  Request request = prompt_of(250);
  request.max_new_tokens.reset();
  const auto recorder = submit_and_wait(engine, request);
  EXPECT_EQ(recorder->answer().tokens.size(), 6u);
  EXPECT_EQ(recorder->answer().reason, FinishReason::kLength);
  options.kv_cache_bytes = block_bytes(transformer) - 1;
  EXPECT_EQ(sequence_capacity(transformer, options).kv_cache, 0);
}

TEST_F(Refusals, RequestsThatFindTheQueueFull) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 1;
  options.max_queued_requests = 3;
  options.max_queued_tokens = 100;
  Engine engine(transformer, options);
  EXPECT_FALSE(submit(engine, prompt_of(400)).refusal);  // the request finds the queue empty
  backend.step();                                        // the request leaves the queue
  EXPECT_FALSE(submit(engine, prompt_of(60)).refusal);
  expect_refusal(engine, prompt_of(41), Refusal::kQueueFull, {"60 tokens", "41 more", "100"});
  EXPECT_FALSE(submit(engine, prompt_of(10)).refusal);
  EXPECT_FALSE(submit(engine, prompt_of(10)).refusal);
  expect_refusal(engine, prompt_of(1), Refusal::kQueueFull, {"3 requests", "at most 3"});
  const Statistics statistics = engine.statistics();
  EXPECT_EQ(statistics.queued_tokens, 80);
  EXPECT_EQ(statistics.waiting, 3);
  EXPECT_EQ(statistics.running, 1);
  backend.release();
  expect_no_block_in_use(engine);
  EXPECT_FALSE(submit(engine, prompt_of(41)).refusal);
}

TEST_F(Refusals, RequestsAfterStopAdmission) {
  backend.hold();
  Engine engine(transformer, {});
  const auto recorder = std::make_shared<Recorder>();
  ASSERT_FALSE(engine.submit(prompt_of(5), recorder).refusal);
  engine.stop_admission();
  expect_refusal(engine, prompt_of(5), Refusal::kStopping, {});
  EXPECT_FALSE(engine.idle());
  backend.release();
  recorder->wait();  // the request that was admitted goes on
  EXPECT_EQ(recorder->answer().tokens.size(), 3u);
  expect_no_block_in_use(engine);
  engine.abort();
  expect_refusal(engine, prompt_of(5), Refusal::kStopping, {});
}

}  // namespace
}  // namespace neuronmm::serve
