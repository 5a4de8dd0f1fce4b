// Tests that each client gets its share of the queue, the slots, the memory and the steps, whatever
// other clients send.

#include <deque>

#include <gtest/gtest.h>

#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

class Fairness : public testing::Test {
 protected:
  static Request request_of(const std::string& client, int64_t prompt, int64_t new_tokens) {
    static uint64_t seed = 0;
    Request request;
    request.client = client;
    request.prompt = model::random_tokens(prompt, 19, ++seed);
    request.max_new_tokens = new_tokens;
    return request;
  }
  std::shared_ptr<Recorder> submit(Engine& engine, const Request& request) {
    auto recorder = std::make_shared<Recorder>(request.choices);
    const Admission admission = engine.submit(request, recorder);
    EXPECT_FALSE(admission.refusal) << admission.message;
    return recorder;
  }
  // Counts the steps until the recorder has its whole answer.
  int64_t steps_until(const Recorder& recorder, int64_t most) {
    int64_t steps = 0;
    for (; !recorder.finished() && steps < most; ++steps) backend.step();
    return steps;
  }

  SteppedBackend backend{cpu::make_backend()};
  const model::Transformer transformer = make_model(long_config(3000), backend);
};

TEST_F(Fairness, OneRequestDoesNotWaitForTwoHundredOfAnotherClient) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 4;
  Engine engine(transformer, options);
  std::vector<std::shared_ptr<Recorder>> many;
  for (int i = 0; i < 200; ++i) many.push_back(submit(engine, request_of("many", 20, 10)));
  backend.step(5);
  const auto one = submit(engine, request_of("one", 20, 10));
  EXPECT_LE(steps_until(*one, 40), 14);
  EXPECT_FALSE(many.back()->finished());
  backend.release();
  for (const auto& recorder : many) recorder->wait();
  expect_no_block_in_use(engine);
}

// Answers that run give slots back, and continue later without a change.
TEST_F(Fairness, LongAnswersGiveUpSlotsThatBelongToAnother) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 4;
  Engine engine(transformer, options);
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Recorder>> many;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(request_of("many", 20, 300));
    many.push_back(submit(engine, requests.back()));
  }
  backend.step(20);
  std::vector<std::shared_ptr<Recorder>> few;
  for (int i = 0; i < 3; ++i) few.push_back(submit(engine, request_of("few", 20, 10)));
  EXPECT_LE(steps_until(*few[1], 60), 20);  // two slots are the share of one of two clients
  EXPECT_GE(engine.statistics().preemptions, 2);
  backend.release();
  for (const auto& recorder : many) recorder->wait();
  engine.abort();
  for (size_t i = 0; i < many.size(); ++i)
    expect_answer(many[i]->answer(), expected_answer(transformer, requests[i]));
}

TEST_F(Fairness, LongPromptsGiveUpMemoryThatBelongsToAnother) {
  backend.hold();
  EngineOptions options;
  options.kv_cache_bytes = 24 * block_bytes(transformer);
  Engine engine(transformer, options);
  std::vector<std::shared_ptr<Recorder>> many;
  for (int i = 0; i < 8; ++i) many.push_back(submit(engine, request_of("many", 700, 400)));
  backend.step(10);
  const auto one = submit(engine, request_of("one", 100, 5));
  EXPECT_LE(steps_until(*one, 60), 20);
  backend.release();
  for (const auto& recorder : many) recorder->wait();
  expect_no_block_in_use(engine);
}

TEST_F(Fairness, APromptIsReadWhileAnotherClientKeepsSendingShortOnes) {
  EngineOptions options;
  options.chunk_tokens = 64;
  options.max_sequences = 32;
  Engine engine(transformer, options);
  std::vector<std::shared_ptr<Recorder>> many;
  for (int i = 0; i < 25; ++i) many.push_back(submit(engine, request_of("many", 1500, 1)));
  const auto one = submit(engine, request_of("one", 1000, 1));
  const auto is_open = [&] {
    const Statistics now = engine.statistics();
    return now.waiting + now.running < 60;
  };
  while (!one->finished() && many.size() < 20'000) {
    if (is_open()) many.push_back(submit(engine, request_of("many", 50, 1)));
  }
  EXPECT_TRUE(one->finished());
  EXPECT_FALSE(many[24]->finished());  // the long prompts of the other client come later
  engine.abort();
}

TEST_F(Fairness, TwoClientsGetEqualNumbersOfTokens) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 2;
  Engine engine(transformer, options);
  int64_t large = 0, small = 0;
  std::vector<std::shared_ptr<Recorder>> recorders;
  const auto add = [&](const std::string& client, int64_t tokens, int64_t& count) {
    recorders.push_back(std::make_shared<Recorder>());
    recorders.back()->on_each = [&count](int64_t, TokenId) {
      ++count;
      return true;
    };
    EXPECT_FALSE(engine.submit(request_of(client, 10, tokens), recorders.back()).refusal);
  };
  for (int i = 0; i < 20; ++i) add("large", 200, large);
  for (int i = 0; i < 400; ++i) add("small", 10, small);
  backend.step(600);
  // Prompts count, too: the client with small answers has more of them, which cost half as much.
  EXPECT_GT(small, large / 2);
  EXPECT_GT(large, small / 2);
  backend.release();
  engine.abort();
}

TEST_F(Fairness, AFullQueueHasRoomForANewClient) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 1;
  options.max_queued_requests = 64;
  options.max_queued_tokens = 4000;
  Engine engine(transformer, options);
  std::deque<std::shared_ptr<Recorder>> recorders;
  const auto fill = [&](const std::string& client, int64_t prompt) {
    int64_t accepted = 0;
    for (; accepted < 1000; ++accepted) {
      recorders.push_back(std::make_shared<Recorder>());
      const Admission admission = engine.submit(request_of(client, prompt, 1), recorders.back());
      if (!admission.refusal) continue;
      EXPECT_EQ(admission.refusal, Refusal::kQueueFull);
      break;
    }
    return accepted;
  };
  recorders.push_back(submit(engine, request_of("running", 10, 50)));
  backend.step();
  const int64_t first = fill("first", 2);
  EXPECT_GE(first, 50);
  EXPECT_LT(first, 64);
  for (const char* client : {"second", "third"}) EXPECT_GE(fill(client, 2), 1) << client;
  backend.release();
  expect_no_block_in_use(engine);

  backend.hold();
  recorders.push_back(submit(engine, request_of("running", 10, 50)));
  backend.step();
  EXPECT_GE(fill("first", 400), 8);
  EXPECT_GE(fill("second", 100), 1);
  backend.release();
  expect_no_block_in_use(engine);
}

}  // namespace
}  // namespace neuronmm::serve
