// Tests clients that leave, do not read or wait long, a server whose model is not loaded yet, and
// the end of a server.

#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

TEST_F(HttpTest, MemoryIsFreedWhenClientsLeaveInTheQueueOrDuringPrefill) {
  engine_options_.max_sequences = 1;
  for (const bool stream : {true, false}) {
    backend_.hold();
    if (stream) start();
    HttpClient running(port()), waiting(port());
    running.send(post_text("/v1/completions", completion(300, stream)));
    wait_for_requests(1, 0);  // the engine is halted in the prefill of this request
    waiting.send(post_text("/v1/completions", completion(300, stream)));
    wait_for_requests(1, 1);
    waiting.close();
    running.close();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time for the server to notice
    const int64_t before = engine_->statistics().generated_tokens;
    backend_.release();
    expect_no_block_in_use();
    EXPECT_LE(engine_->statistics().generated_tokens, before + 1);
  }
}

TEST_F(HttpTest, AnswerEndsWhenItsClientLeaves) {
  start();
  HttpClient client(port());
  client.send(post_text("/v1/completions", completion(480, true)));
  EXPECT_FALSE(client.read_some().empty());
  backend_.hold();
  client.close();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const int64_t before = engine_->statistics().generated_tokens;
  backend_.release();
  expect_no_block_in_use();
  EXPECT_LE(engine_->statistics().generated_tokens, before + 1);
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", completion(2, false)).status, 200);
}

TEST_F(HttpTest, ClientThatNeverReadsLosesItsAnswerAndOthersContinue) {
  options_.limits.unread_bytes = 4096;
  options_.limits.send_buffer_bytes = 4096;
  start();
  HttpClient never(port(), /*receive_buffer_bytes=*/2048);
  const TestJson body = {{"prompt", "Once upon a time"},
                         {"max_tokens", 480},
                         {"stream", true},
                         {"ignore_eos", true},
                         {"n", 4},
                         {"logprobs", 5}};
  never.send(post_text("/v1/completions", body.dump()));
  for (int i = 0; i < 10'000 && engine_->statistics().generated_tokens < 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", completion(20, false)).status, 200);
  expect_no_block_in_use();
  EXPECT_LT(engine_->statistics().generated_tokens, 4 * 480);
}

TEST_F(HttpTest, PingsAreSentToAClientThatWaitsLong) {
  options_.limits.ping = std::chrono::milliseconds(20);
  backend_.hold();
  start();
  HttpClient client(port());
  client.send(post_text("/v1/completions", completion(2, true)));
  std::string text;
  while (text.find(": ping\n\n") == std::string::npos) text += client.read_some();
  backend_.release();
  while (text.find("[DONE]") == std::string::npos) text += client.read_some();
}

TEST_F(HttpTest, NoPingsAreSentWithoutAnInterval) {
  options_.limits.ping = std::chrono::milliseconds(0);
  backend_.hold();
  start();
  HttpClient client(port());
  client.send(post_text("/v1/completions", completion(2, true)));
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  backend_.release();
  std::string text;
  while (text.find("[DONE]") == std::string::npos) text += client.read_some();
  EXPECT_EQ(text.find(": ping"), std::string::npos);
}

TEST_F(HttpTest, ModelEndpointsAnswer503UntilTheModelIsLoaded) {
  listen();
  HttpClient client(port());
  EXPECT_EQ(client.get("/health").status, 200);
  for (const char* path : {"/ready", "/v1/models", "/metrics"}) {
    const HttpResponse response = client.get(path);
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(error_of(response)["code"], "loading");
  }
  EXPECT_EQ(client.post("/v1/completions", completion(2, false)).status, 503);
  load();
  EXPECT_EQ(client.get("/ready").status, 200);
  EXPECT_EQ(client.post("/v1/completions", completion(2, false)).status, 200);
}

TEST_F(HttpTest, DrainingFinishesRunningAnswersAndRefusesNewRequests) {
  backend_.hold();
  start();
  HttpClient running(port()), idle(port()), later(port());
  EXPECT_EQ(idle.get("/health").status, 200);
  running.send(post_text("/v1/completions", completion(20, true)));
  wait_for_requests(1, 0);
  server_->drain();
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_FALSE(server_->drained());
  HttpClient fresh(port());
  EXPECT_EQ(fresh.get("/health").status, 200);
  const HttpResponse ready = HttpClient(port()).get("/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(error_of(ready)["code"], "draining");
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", completion(2, false)).status, 503);
  backend_.release();
  EXPECT_TRUE(running.read_response().body.ends_with("[DONE]\n\n"));
  for (int i = 0; i < 2000 && !server_->drained(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(server_->drained());
}

TEST_F(HttpTest, AbortSendsAnErrorToWaitingClients) {
  start();
  HttpClient whole(port()), stream(port());
  backend_.hold();
  whole.send(post_text("/v1/completions", completion(400, false)));
  wait_for_requests(1, 0);
  stream.send(post_text("/v1/completions", completion(400, true)));
  wait_for_requests(1, 1);
  std::thread release([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    backend_.release();
  });
  server_->abort();
  release.join();
  EXPECT_EQ(whole.read_response().status, 503);
  EXPECT_NE(stream.read_response().body.find("\"error\""), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::serve
