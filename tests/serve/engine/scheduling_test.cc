// Tests of the scheduler: the order in which requests run, preemption, and what happens to the
// other answers when one is cancelled or fails.

#include <algorithm>
#include <new>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/workers_lost.h"
#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

class Scheduling : public testing::Test {
 protected:
  static Request request_of(int64_t prompt, int64_t new_tokens, uint64_t seed = 1) {
    Request request;
    request.prompt = model::random_tokens(prompt, 19, seed);
    request.max_new_tokens = new_tokens;
    return request;
  }
  RequestId submit(Engine& engine, const Request& request,
                   const std::shared_ptr<Recorder>& recorder) {
    const Admission admission = engine.submit(request, recorder);
    EXPECT_FALSE(admission.refusal) << admission.message;
    return admission.id;
  }
  std::shared_ptr<Recorder> submit(Engine& engine, const Request& request) {
    auto recorder = std::make_shared<Recorder>(request.choices);
    submit(engine, request, recorder);
    return recorder;
  }

  SteppedBackend backend{cpu::make_backend()};
  const model::Transformer transformer = make_model(long_config(3000), backend);
};

// While long prompts arrive, an answer that is being decoded gets a token in every step, and no
// step computes more prompt tokens than a chunk.
TEST_F(Scheduling, LongPromptsDelayADecodedAnswerByAtMostAChunk) {
  EngineOptions options;
  options.chunk_tokens = 100;
  Engine engine(transformer, options);
  const auto decoding = std::make_shared<Recorder>();
  std::vector<size_t> steps_at_token;
  std::vector<std::shared_ptr<Recorder>> prompts;
  decoding->on_each = [&](int64_t, TokenId) {
    steps_at_token.push_back(backend.tokens_of_steps().size());
    if (steps_at_token.size() == 5) {
      for (uint64_t i = 0; i < 3; ++i) prompts.push_back(submit(engine, request_of(1000, 2, i)));
    }
    return true;
  };
  submit(engine, request_of(4, 60), decoding);
  decoding->wait();
  for (const auto& prompt : prompts) prompt->wait();
  engine.abort();
  for (size_t i = 1; i < steps_at_token.size(); ++i) {
    EXPECT_EQ(steps_at_token[i], steps_at_token[i - 1] + 1);
  }
  int64_t most = 0;
  for (const int64_t tokens : backend.tokens_of_steps()) most = std::max(most, tokens);
  EXPECT_GE(most, 100);  // a chunk, and one token of each of at most four answers
  EXPECT_LE(most, 104);
}

TEST_F(Scheduling, AShortPromptDoesNotWaitForALongOne) {
  backend.hold();
  EngineOptions options;
  options.chunk_tokens = 100;
  Engine engine(transformer, options);
  const auto longest = submit(engine, request_of(2000, 1, 1));
  backend.step();
  const auto other = submit(engine, request_of(2000, 1, 2));
  const auto brief = submit(engine, request_of(40, 1, 3));
  backend.step(2);
  EXPECT_TRUE(brief->finished());
  EXPECT_FALSE(longest->finished());
  backend.release();
  longest->wait();
  other->wait();
}

TEST_F(Scheduling, ALongPromptFinishesWhileShortOnesKeepArriving) {
  EngineOptions options;
  options.chunk_tokens = 64;
  Engine engine(transformer, options);
  std::vector<std::shared_ptr<Recorder>> brief;
  const auto longest = std::make_shared<Recorder>();
  submit(engine, request_of(2000, 1, 1), longest);
  uint64_t seed = 2;
  while (!longest->finished() && seed < 20'000) {
    if (engine.statistics().waiting + engine.statistics().running < 20)
      brief.push_back(submit(engine, request_of(60, 1, seed++)));
  }
  EXPECT_TRUE(longest->finished());
  for (const auto& recorder : brief) recorder->wait();
}

TEST_F(Scheduling, SmallerPrioritiesComeFirst) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 1;
  Engine engine(transformer, options);
  std::vector<int> order;
  std::vector<std::shared_ptr<Recorder>> recorders;
  const int64_t priorities[] = {0, 5, 0, -1, 5, -1};
  for (int i = 0; i < 6; ++i) {
    recorders.push_back(std::make_shared<Recorder>());
    recorders.back()->on_each = [&order, i](int64_t, TokenId) {
      order.push_back(i);
      return true;
    };
    Request request = request_of(5, i == 0 ? 2 : 1);
    request.priority = priorities[i];
    submit(engine, request, recorders.back());
    if (i == 0) backend.step();  // so the first request runs before the others arrive
  }
  backend.release();
  for (const auto& recorder : recorders) recorder->wait();
  EXPECT_EQ(order, (std::vector{0, 0, 3, 5, 2, 1, 4}));
}

// The memory holds about two of the answers, which all grow, so that others are preempted.
TEST_F(Scheduling, PreemptionChangesNoAnswer) {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 6; ++i) {
    requests.push_back(request_of(100 + 20 * static_cast<int64_t>(i), 300, i));
    requests.back().sampling = {.temperature = 1.2, .frequency_penalty = 0.1, .seed = i};
    requests.back().logprobs = 1;
    requests.back().choices = i == 2 ? 3 : 1;
    if (i == 4) requests.back().prompt_logprobs = 0;
  }
  for (const int64_t chunk : {37, 512}) {
    EngineOptions options;
    options.kv_cache_bytes = 8 * block_bytes(transformer);
    options.chunk_tokens = chunk;
    Engine engine(transformer, options);
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (const Request& request : requests) recorders.push_back(submit(engine, request));
    for (const auto& recorder : recorders) recorder->wait();
    expect_no_block_in_use(engine);
    const Statistics statistics = engine.statistics();
    EXPECT_GT(statistics.preemptions, 0);
    EXPECT_EQ(statistics.generated_tokens, 8 * 300);
    engine.abort();
    for (size_t i = 0; i < requests.size(); ++i) {
      for (int64_t choice = 0; choice < requests[i].choices; ++choice) {
        SCOPED_TRACE(fmt::format("request {}, answer {}", i, choice));
        expect_answer(recorders[i]->answer(static_cast<size_t>(choice)),
                      expected_answer(transformer, requests[i], choice));
      }
      EXPECT_EQ(std::ssize(recorders[i]->prompt_logprobs()), i == 4 ? 179 : 0);
    }
  }
}

TEST_F(Scheduling, CancellationActsWithinAStep) {
  struct Stage {
    std::string name;
    int64_t prompt, choices;
    int64_t steps;  // the number of steps before the cancellation, with chunks of 100 tokens
  };
  const Stage stages[] = {{"not begun", 50, 1, 0},
                          {"prefill", 1000, 1, 3},
                          {"prefill of several", 1000, 4, 3},
                          {"decode", 50, 1, 6},
                          {"decode of several", 50, 4, 6}};
  for (const Stage& stage : stages) {
    SCOPED_TRACE(stage.name);
    backend.hold();
    EngineOptions options;
    options.chunk_tokens = 100;
    Engine engine(transformer, options);
    const Request neighbour = request_of(30, 20, 9);
    const auto other = submit(engine, neighbour);
    Request request = request_of(stage.prompt, 500);
    request.choices = stage.choices;
    const auto recorder = std::make_shared<Recorder>(stage.choices);
    backend.step();
    const RequestId id = submit(engine, request, recorder);
    if (stage.steps > 0) backend.step(stage.steps);
    engine.cancel(id);
    engine.cancel(id);    // a second call changes nothing
    engine.cancel(9999);  // no request has this id
    backend.step();
    EXPECT_TRUE(recorder->finished());
    for (const ReceivedAnswer& answer : recorder->answers())
      EXPECT_EQ(answer.reason, FinishReason::kCancelled);
    backend.release();
    other->wait();
    engine.cancel(id);  // the request has ended, so the call changes nothing
    expect_no_block_in_use(engine);
    engine.abort();
    expect_answer(other->answer(), expected_answer(transformer, neighbour));
  }
}

TEST_F(Scheduling, AQueuedRequestMayBeCancelled) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 1;
  Engine engine(transformer, options);
  const auto running = submit(engine, request_of(10, 5));
  backend.step();
  const auto queued = std::make_shared<Recorder>();
  const RequestId id = submit(engine, request_of(10, 5), queued);
  backend.step();
  engine.cancel(id);
  backend.step();
  EXPECT_TRUE(queued->finished());
  EXPECT_FALSE(queued->usage());
  EXPECT_EQ(engine.statistics().queued_tokens, 0);
  backend.release();
  running->wait();
  EXPECT_EQ(running->answer().tokens.size(), 5u);
  expect_no_block_in_use(engine);
}

TEST_F(Scheduling, AListenerMayCancelOrEndItsAnswer) {
  Engine engine(transformer, {});
  const auto ended = std::make_shared<Recorder>(2);
  ended->on_each = [made = 0](int64_t choice, TokenId) mutable {
    return choice == 1 || ++made < 4;
  };
  Request request = request_of(10, 9);
  request.choices = 2;
  submit(engine, request, ended);
  ended->wait();
  EXPECT_EQ(ended->answer(0).tokens.size(), 4u);
  EXPECT_EQ(ended->answer(0).reason, FinishReason::kStop);
  EXPECT_EQ(ended->answer(1).tokens.size(), 9u);
  EXPECT_EQ(ended->answer(1).reason, FinishReason::kLength);

  const auto cancelled = std::make_shared<Recorder>();
  std::atomic<RequestId> id = 0;
  cancelled->on_each = [&](int64_t, TokenId) {
    if (id != 0) engine.cancel(id);
    return true;
  };
  id = submit(engine, request_of(10, 2900), cancelled);
  cancelled->wait();
  EXPECT_EQ(cancelled->answer().reason, FinishReason::kCancelled);
  expect_no_block_in_use(engine);
}

TEST_F(Scheduling, AnExceptionFromAListenerEndsOnlyItsAnswer) {
  Engine engine(transformer, {});
  const auto throwing = std::make_shared<Recorder>();
  throwing->on_each = [](int64_t, TokenId) -> bool { throw std::runtime_error("no more"); };
  const auto other = submit(engine, request_of(10, 30));
  submit(engine, request_of(20, 30), throwing);
  throwing->wait();
  other->wait();
  EXPECT_EQ(throwing->answer().reason, FinishReason::kError);
  EXPECT_EQ(throwing->answer().message, "no more");
  EXPECT_EQ(other->answer().tokens.size(), 30u);
  expect_no_block_in_use(engine);
}

TEST_F(Scheduling, AbortEndsAllAnswersAndTheThread) {
  backend.hold();
  EngineOptions options;
  options.max_sequences = 2;
  options.chunk_tokens = 10;
  Engine engine(transformer, options);
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (uint64_t i = 0; i < 5; ++i) recorders.push_back(submit(engine, request_of(500, 500, i)));
  backend.step(3);
  backend.release();
  engine.abort();
  for (const auto& recorder : recorders) {
    EXPECT_TRUE(recorder->finished());
    EXPECT_EQ(recorder->answer().reason, FinishReason::kCancelled);
  }
  EXPECT_TRUE(engine.idle());
  engine.abort();  // a second call changes nothing
}

TEST_F(Scheduling, AbortFromAListenerDoesNotWaitForItself) {
  Engine engine(transformer, {});
  const auto recorder = std::make_shared<Recorder>();
  recorder->on_each = [&](int64_t, TokenId) {
    engine.abort();
    return true;
  };
  submit(engine, request_of(5, 500), recorder);
  recorder->wait();
  EXPECT_EQ(recorder->answer().reason, FinishReason::kCancelled);
}

// The embedding of token 3 makes all logits of a sequence NaN.
TEST_F(Scheduling, LogitsThatAreNotFiniteEndOnlyTheirRequest) {
  const io::ModelConfig config = long_config(300);
  model::TestTensors tensors = model::random_tensors(config, 77);
  tensors.at("model.embed_tokens.weight").values[3 * 16] = std::nanf("");
  const model::Transformer broken = model::load_tiny(config, tensors, backend).value();
  Engine engine(broken, {});
  Request bad = request_of(20, 10), good = request_of(20, 10);
  std::ranges::replace(good.prompt, 3, 4);
  good.sampling.logit_bias = {{3, -1e6}};
  bad.prompt[10] = 3;
  bad.choices = 2;
  const auto fails = submit(engine, bad), works = submit(engine, good);
  fails->wait();
  works->wait();
  for (const ReceivedAnswer& answer : fails->answers()) {
    EXPECT_EQ(answer.reason, FinishReason::kError);
    EXPECT_NE(answer.message.find("position 20"), std::string::npos) << answer.message;
  }
  EXPECT_EQ(works->answer().tokens.size(), 10u);
  expect_no_block_in_use(engine);
}

// A backend that fails in the middle of the next `failures` forward passes.
class FailingBackend : public ops::ForwardingBackend {
 public:
  FailingBackend() : ForwardingBackend(cpu::make_backend()) {}
  void attention(const ops::AttentionShape& shape, int64_t layer, ConstMatrixView q,
                 ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
                 MutableMatrixView y) const override {
    if (lost) throw WorkersLost("process 1 has ended");
    if (layer == 1 && failures > 0 && --failures >= 0) throw std::bad_alloc();
    inner().attention(shape, layer, q, k, v, batch, y);
  }
  Status prepare(int64_t) const override {
    return refuses ? Status(fail("no kernel for this")) : Status();
  }
  mutable std::atomic<int> failures = 0;
  std::atomic<bool> refuses = false, lost = false;
};

// Requests that wait end, too, because no later forward pass can succeed.
TEST_F(Scheduling, LostWorkersEndAllRequests) {
  FailingBackend failing;
  const model::Transformer fragile = make_model(long_config(300), failing);
  EngineOptions options;
  options.max_sequences = 1;
  Engine engine(fragile, options);
  failing.lost = true;
  Request request = request_of(200, 5);
  request.choices = 2;
  for (const auto& recorder : {submit(engine, request), submit(engine, request)}) {
    recorder->wait();
    for (const ReceivedAnswer& answer : recorder->answers()) {
      EXPECT_EQ(answer.reason, FinishReason::kLost);
      EXPECT_EQ(answer.message, "process 1 has ended");
    }
  }
  expect_no_block_in_use(engine);
}

// The first request leaves cached blocks, whose memory the second one gets.
TEST_F(Scheduling, APassWithoutMemoryIsRepeatedWithThatOfCachedBlocks) {
  FailingBackend failing;
  const model::Transformer fragile = make_model(long_config(300), failing);
  Engine engine(fragile, {});
  submit_and_wait(engine, request_of(200, 5));
  expect_no_block_in_use(engine);  // because the answer ends a moment before its blocks are cached
  EXPECT_EQ(engine.statistics().kv_blocks_cached, 2);  // one of them is not full
  Request request = request_of(150, 6);
  request.prompt[0] ^= 1;  // otherwise the cached block would be in use
  failing.failures = 1;
  const auto second = submit_and_wait(engine, request);
  engine.abort();
  expect_answer(second->answer(), expected_answer(fragile, request));
}

// No block is cached, so the longer of two answers ends, and the other goes on.
TEST_F(Scheduling, APassWithoutMemoryEndsTheLongestAnswerOnly) {
  FailingBackend failing;
  const model::Transformer fragile = make_model(long_config(300), failing);
  Engine engine(fragile, {});
  const Request shorter = request_of(20, 6), longer = request_of(100, 40);
  failing.failures = 1;
  const auto ended = submit(engine, longer), goes_on = submit(engine, shorter);
  ended->wait();
  goes_on->wait();
  EXPECT_EQ(ended->answer().reason, FinishReason::kNoMemory);
  engine.abort();
  expect_answer(goes_on->answer(), expected_answer(fragile, shorter));
}

TEST_F(Scheduling, TheEngineGoesOnAfterAForwardPassThrows) {
  FailingBackend failing;
  const model::Transformer fragile = make_model(long_config(300), failing);
  Engine engine(fragile, {});
  Request request = request_of(200, 5);
  request.choices = 2;
  failing.failures = 1;
  const auto first = submit_and_wait(engine, request);
  EXPECT_EQ(first->answer(1).reason, FinishReason::kNoMemory);
  failing.refuses = true;
  EXPECT_EQ(submit_and_wait(engine, request)->answer().message, "no kernel for this");
  failing.refuses = false;
  const auto last = submit_and_wait(engine, request);
  expect_no_block_in_use(engine);
  engine.abort();
  expect_answer(last->answer(), expected_answer(fragile, request));
}

}  // namespace
}  // namespace neuronmm::serve
