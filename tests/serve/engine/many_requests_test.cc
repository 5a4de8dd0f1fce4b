// Submits thousands of requests from several threads and cancels some of them at random times.
// Every answer must be the same as alone, and every block of memory must be given back.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "serve/engine/engine_support.h"

namespace neuronmm::serve {
namespace {

constexpr int kThreads = 4;
#ifdef NEURONMM_SANITIZED  // because the full number takes minutes with sanitizers
constexpr int kRequestsOfThread = 400;
#else
constexpr int kRequestsOfThread = 800;
#endif

// Makes 60 requests, some with common prefixes. They are submitted many times, so the expected
// answer of each is computed only once.
std::vector<Request> random_requests(std::mt19937_64& random) {
  std::vector<Request> requests;
  for (int i = 0; i < 60; ++i) {
    Request request;
    const int64_t length = random() % 4 == 0 ? 100 + random() % 400 : 1 + random() % 40;
    request.prompt = model::random_tokens(length, 19, random() % 3);
    request.prompt.back() = static_cast<TokenId>(random() % 19);
    request.choices = random() % 6 == 0 ? 1 + static_cast<int64_t>(random() % 4) : 1;
    request.max_new_tokens = random() % (i % 8 == 0 ? 200 : 30);
    request.stop_tokens = {static_cast<TokenId>(random() % 19)};
    request.min_new_tokens = random() % 3 == 0 ? random() % 10 : 0;
    request.sampling.seed = random();
    if (random() % 2 == 0)
      request.sampling.temperature = 0.5 + 0.001 * static_cast<double>(random() % 1500);
    if (random() % 3 == 0) request.sampling.top_k = 1 + random() % 19;
    if (random() % 3 == 0) request.sampling.presence_penalty = 0.7;
    if (random() % 3 == 0) request.logprobs = random() % 4;
    if (random() % 8 == 0) request.prompt_logprobs = random() % 3;
    if (random() % 5 == 0) request.cache_salt = "other";
    request.priority = static_cast<int64_t>(random() % 3) - 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

// Runs in each thread: submits requests, cancels some of them after a while, and compares the
// answers.
void submit_many(Engine& engine, const std::vector<Request>& requests,
                 const std::vector<std::vector<model::Generation>>& expected, uint64_t seed,
                 std::atomic<int>& compared) {
  std::mt19937_64 random(seed);
  struct Sent {
    size_t request;
    std::shared_ptr<Recorder> recorder;
    bool cancelled;
  };
  std::vector<Sent> sent;
  const auto finish = [&] {
    for (const auto& [request, recorder, cancelled] : sent) {
      recorder->wait();
      for (size_t i = 0; i < recorder->answers().size(); ++i) {
        const ReceivedAnswer& answer = recorder->answer(i);
        const model::Generation& right = expected[request][i];
        if (answer.reason == FinishReason::kCancelled) {
          EXPECT_TRUE(cancelled);
          ASSERT_LE(answer.tokens.size(), right.tokens.size());
          EXPECT_TRUE(std::ranges::equal(answer.tokens,
                                         std::span(right.tokens).first(answer.tokens.size())));
        } else {
          expect_answer(answer, right);
          ++compared;
        }
      }
    }
    sent.clear();
  };
  for (int i = 0; i < kRequestsOfThread; ++i) {
    const size_t which = random() % requests.size();
    auto recorder = std::make_shared<Recorder>(requests[which].choices);
    const Admission admission = engine.submit(requests[which], recorder);
    ASSERT_FALSE(admission.refusal) << admission.message;
    const bool cancel = random() % 4 == 0;
    if (cancel) {
      if (random() % 2 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      engine.cancel(admission.id);
    }
    sent.push_back({which, std::move(recorder), cancel});
    if (sent.size() > random() % 60) finish();
  }
  finish();
}

TEST(ManyRequests, GetTheSameAnswersAsAloneAndGiveBackAllMemory) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const auto backend = cpu::make_backend();
  const model::Transformer transformer = make_model(long_config(600), *backend);
  const std::vector<Request> requests = random_requests(random);
  std::vector<std::vector<model::Generation>> expected;
  for (const Request& request : requests) {
    expected.emplace_back();
    for (int64_t i = 0; i < request.choices; ++i) {
      expected.back().push_back(expected_answer(transformer, request, i));
    }
  }
  EngineOptions options;
  options.max_sequences = 24;
  options.kv_cache_bytes = 8 * block_bytes(transformer);  // too little for 24 sequences
  options.chunk_tokens = 150;
  Engine engine(transformer, options);
  std::atomic<int> compared = 0;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { submit_many(engine, requests, expected, seed + i, compared); });
  }
  for (std::thread& thread : threads) thread.join();
  expect_no_block_in_use(engine);
  EXPECT_GT(compared, kThreads * kRequestsOfThread / 2);
  EXPECT_GT(engine.statistics().prefix_hits, 0);
}

}  // namespace
}  // namespace neuronmm::serve
