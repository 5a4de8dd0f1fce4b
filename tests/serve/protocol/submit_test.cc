// Tests that all prompts of a request are submitted or none, and what reaches the client if
// something fails.

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "serve/protocol/paced_submission.h"
#include "serve/protocol/prepared_embedding.h"

namespace neuronmm::serve {
namespace {

// An engine that keeps its requests and refuses more than `capacity` of them.
struct FakeEngine : EngineInterface {
  Admission submit(Request request, std::shared_ptr<Listener> listener) override {
    if (requests.size() >= memory_for) throw std::bad_alloc();
    requests.push_back(std::move(request));
    listeners.push_back(std::move(listener));
    if (requests.size() > capacity) return {0, Refusal::kQueueFull, "full"};
    return {requests.size(), {}, ""};
  }
  void cancel(RequestId id) override { cancelled.push_back(id); }

  size_t capacity = 10;
  size_t memory_for = SIZE_MAX;  // requests
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Listener>> listeners;
  std::vector<RequestId> cancelled;
};

PreparedGeneration prepare(const ServedModel& model, const std::shared_ptr<FakeSink>& sink,
                           const Json& body) {
  auto prepared =
      prepare_text_completion(model, body.dump(), {sink, 1, [] { return uint64_t{3}; }});
  if (!prepared.ok()) throw std::runtime_error(prepared.error().message);
  return std::move(prepared).value();
}

TEST(Submit, ReturnsTheIdsOfAllPrompts) {
  const ServedFolder folder;
  FakeEngine engine;
  const auto sink = std::make_shared<FakeSink>();
  const auto ids = submit(prepare(folder.model, sink, {{"prompt", {"a", "b"}}}), engine, 1);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, (std::vector<RequestId>{1, 2}));
  for (size_t i : {0, 1}) play(engine.requests[i], *engine.listeners[i], {says("x")});
  EXPECT_EQ(sink->status, 200);
}

TEST(Submit, CancelsTheRequestsBeforeARefusedOne) {
  const ServedFolder folder;
  FakeEngine engine;
  engine.capacity = 1;
  const auto sink = std::make_shared<FakeSink>();
  const auto ids = submit(prepare(folder.model, sink, {{"prompt", {"a", "b", "c"}}}), engine, 4);
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().status, 429);
  EXPECT_EQ(ids.error().retry_after_s, 4);
  EXPECT_EQ(engine.requests.size(), 2u);
  EXPECT_EQ(engine.cancelled, std::vector<RequestId>{1});
  // The engine may still call the listener. The answer ends as cancelled, not as complete.
  EXPECT_TRUE(engine.listeners[0]->on_token(0, {'x', {}}));
  engine.listeners[0]->on_finish(0, FinishReason::kCancelled, {}, "");
  EXPECT_EQ(sink->status, 0);
  EXPECT_TRUE(sink->events.empty());
  EXPECT_FALSE(sink->ended);
}

// The client leaves while the engine's thread sends its answer.
TEST(Submit, SendsNothingAfterTheResponseIsClosed) {
  const ServedFolder folder;
  const auto sink = std::make_shared<FakeSink>();
  PreparedGeneration answer = prepare(folder.model, sink, {{"prompt", "a"}, {"stream", true}});
  std::atomic<int> sent = 0;
  std::atomic<bool> cancelled = false;
  std::thread engine([&] {
    while (!cancelled && answer.listeners[0]->on_token(0, {'x', {}})) ++sent;
    answer.listeners[0]->on_finish(0, FinishReason::kCancelled, {}, "");
  });
  while (sent < 100) std::this_thread::yield();
  answer.writer->close();
  const size_t events = sink->events.size();
  for (const int before = sent; sent < before + 100;) std::this_thread::yield();
  cancelled = true;
  engine.join();
  EXPECT_GE(events, 100u);
  EXPECT_EQ(sink->events.size(), events);
  EXPECT_FALSE(sink->ended);
}

// The requests for the embeddings of `count` texts, which are submitted a few at a time.
struct Paced {
  Paced(const ServedModel& model, int count) {
    engine.capacity = 1000;
    const Json body = {{"input", std::vector<std::string>(static_cast<size_t>(count), "a")}};
    auto prepared =
        prepare_openai_embeddings(model, body.dump(), {sink, 1, [] { return uint64_t{3}; }});
    if (!prepared.ok()) throw std::runtime_error(prepared.error().message);
    paced = std::make_shared<PacedSubmission>(std::move(prepared).value(), engine, 4);
  }
  void finish(size_t request, FinishReason reason) {
    if (reason == FinishReason::kStop) engine.listeners[request]->on_embedding({3.0f, 4.0f});
    engine.listeners[request]->on_finish(0, reason, {}, "");
  }

  FakeEngine engine;
  std::shared_ptr<FakeSink> sink = std::make_shared<FakeSink>();
  std::shared_ptr<PacedSubmission> paced;
};
constexpr size_t kAtATime = PacedSubmission::kMostAtATime;

TEST(PacedSubmission, SubmitsTheNextRequestWhenOneEnds) {
  const ServedFolder folder;
  Paced answer(folder.model, kAtATime + 2);
  ASSERT_TRUE(answer.paced->start().ok());
  EXPECT_EQ(answer.engine.requests.size(), kAtATime);
  for (size_t i = 0; i < kAtATime + 2; ++i) answer.finish(i, FinishReason::kStop);
  EXPECT_EQ(answer.engine.requests.size(), kAtATime + 2);
  EXPECT_EQ(answer.sink->status, 200);
  EXPECT_TRUE(answer.engine.cancelled.empty());
}

// Otherwise the client would wait for the request that was lost.
TEST(PacedSubmission, EndsTheResponseIfThereIsNoMemoryForALaterRequest) {
  const ServedFolder folder;
  Paced answer(folder.model, kAtATime + 2);
  answer.engine.memory_for = kAtATime;
  ASSERT_TRUE(answer.paced->start().ok());
  answer.finish(0, FinishReason::kStop);
  EXPECT_EQ(answer.sink->status, 503);
  EXPECT_TRUE(answer.sink->ended);
  EXPECT_EQ(answer.engine.cancelled.size(), kAtATime);
}

TEST(PacedSubmission, ReturnsTheErrorIfThereIsNoMemoryForAFirstRequest) {
  const ServedFolder folder;
  Paced answer(folder.model, 5);
  answer.engine.memory_for = 2;
  const auto started = answer.paced->start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().status, 503);
  EXPECT_EQ(answer.engine.cancelled, (std::vector<RequestId>{1, 2}));
  answer.finish(0, FinishReason::kCancelled);
  EXPECT_EQ(answer.engine.requests.size(), 2u);
  EXPECT_FALSE(answer.sink->ended);
}

TEST(PacedSubmission, DropsTheOtherRequestsAfterAFailure) {
  const ServedFolder folder;
  Paced answer(folder.model, kAtATime + 2);
  ASSERT_TRUE(answer.paced->start().ok());
  answer.finish(0, FinishReason::kNoMemory);
  EXPECT_EQ(answer.sink->status, 503);
  EXPECT_EQ(answer.engine.cancelled.size(), kAtATime);
  answer.finish(1, FinishReason::kStop);
  EXPECT_EQ(answer.engine.requests.size(), kAtATime);
}

TEST(Failures, BecomeTheErrorOfAResponseWithoutAStream) {
  const ServedFolder folder;
  const ScriptedAnswer broken{bytes("ab"), FinishReason::kError, {}, "a logit is NaN"};
  const Exchange whole = exchange(folder.model, {{"prompt", "p"}}, {broken});
  EXPECT_EQ(whole.sink->status, 500);
  EXPECT_EQ(whole.body()["error"]["message"], "a logit is NaN");
  EXPECT_EQ(whole.body()["error"]["type"], "server_error");
  EXPECT_TRUE(whole.sink->ended);
  const ScriptedAnswer aborted{bytes("ab"), FinishReason::kCancelled, {}, ""};
  EXPECT_EQ(exchange(folder.model, {{"prompt", "p"}}, {aborted}).sink->status, 503);
  const ScriptedAnswer lost{bytes("ab"), FinishReason::kLost, {}, "process 1 has ended"};
  const Exchange unfinished = exchange(folder.model, {{"prompt", "p"}}, {lost});
  EXPECT_EQ(unfinished.sink->status, 503);
  EXPECT_EQ(unfinished.body()["error"], Json({{"message", "process 1 has ended"},
                                              {"type", "server_error"},
                                              {"param", nullptr},
                                              {"code", "lost"}}));
}

TEST(Failures, BecomeTheLastEventOfAStream) {
  const ServedFolder folder;
  const ScriptedAnswer broken{bytes("ab"), FinishReason::kError, {}, "a logit is NaN"};
  for (const Json& body :
       {Json{{"prompt", "p"}, {"stream", true}, {"n", 2}},
        Json{{"messages", {{{"role", "user"}, {"content", "p"}}}}, {"stream", true}, {"n", 2}}}) {
    const Exchange streamed = exchange(folder.model, body, {broken, says("never heard")});
    EXPECT_EQ(streamed.sink->events.back(),
              "data: {\"error\":{\"message\":\"a logit is NaN\",\"type\":\"server_error\","
              "\"param\":null,\"code\":null}}\n\n");
    EXPECT_TRUE(streamed.sink->ended);
    EXPECT_EQ(streamed.sink->status, 0);
  }
}

}  // namespace
}  // namespace neuronmm::serve
