// Tests many clients that are idle or slow in every way that a client can be. The server ends their
// connections in time, and other clients do not notice them.

#include <deque>

#include <sys/resource.h>

#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

using std::chrono::milliseconds;

constexpr const char* kHead = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n";

class SlowClients : public HttpTest {
 protected:
  SlowClients() {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    options_.limits.linger = milliseconds(20);
  }

  // Opens a connection that sends `text` and then nothing.
  HttpClient& open(const std::string& text, int receive_buffer_bytes = 0) {
    HttpClient& client = clients_.emplace_back(port(), receive_buffer_bytes);
    if (!text.empty()) client.send(text);
    return client;
  }
  // Expects that another client is served at once.
  void expect_service() {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(HttpClient(port()).post("/v1/completions", completion(2, false)).status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  }

  std::deque<HttpClient> clients_;
};

// Before, each of these announcements took 8 MiB of the 256 MiB that all bodies may have.
TEST_F(SlowClients, AnnouncedBodiesTakeNothingFromOthers) {
  start();
  for (int i = 0; i < 100; ++i) open(std::string(kHead) + "Content-Length: 8388608\r\n\r\n");
  for (int i = 0; i < 100; ++i) open(std::string(kHead) + "Transfer-Encoding: chunked\r\n\r\n");
  expect_service();
}

TEST_F(SlowClients, HundredsOfThemOfEveryKindDoNotDelayOthers) {
  options_.limits.send_buffer_bytes = 4096;
  start();
  const std::string length = "Content-Length: 100000\r\n\r\n";
  std::vector<HttpClient*> head_dripping, body_dripping;
  for (int i = 0; i < 60; ++i) {
    open("");
    open("POST /v1/compl");
    head_dripping.push_back(&open("G"));
    open(kHead + length);
    body_dripping.push_back(&open(kHead + length + "{"));
    open(kHead + length + std::string(50'000, ' '));
    open(get_text("/openapi.json") + get_text("/openapi.json"), 2048);  // never read
    open(get_text("/health"));                                          // idle after its response
  }
  for (int round = 0; round < 3; ++round) {
    for (HttpClient* client : head_dripping) client->send("E");
    for (HttpClient* client : body_dripping) client->send(" ");
    expect_service();
  }
}

TEST_F(SlowClients, ConnectionsThatSendNothingAreClosed) {
  options_.limits.header = milliseconds(50);
  start();
  EXPECT_TRUE(open("").closed_by_server());
  HttpClient& later = open(get_text("/health"));
  EXPECT_EQ(later.read_response().status, 200);
  std::this_thread::sleep_for(milliseconds(150));
  EXPECT_EQ(later.get("/health").status, 200);  // between two requests a client has more time
}

TEST_F(SlowClients, BodiesBelowTheSlowestRateGet408) {
  options_.limits.body = milliseconds(100);
  options_.limits.slowest_rate = 100'000;
  start();
  const std::string head = std::string(kHead) + "Content-Length: 1000000\r\n\r\n";
  // The first begins fast and then stops. The second sends a byte every few milliseconds.
  HttpClient& stopped = open(head + std::string(500'000, ' '));
  HttpClient& dripping = open(head);
  const auto begin = std::chrono::steady_clock::now();
  while (dripping.send(" ") && std::chrono::steady_clock::now() - begin < milliseconds(400))
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(stopped.read_response().status, 408);
  EXPECT_EQ(dripping.read_response().status, 408);
}

TEST_F(SlowClients, ASlowBodyAboveTheRateIsRead) {
  options_.limits.body = milliseconds(600);
  options_.limits.slowest_rate = 1000;
  start();
  const std::string body = R"({"prompt": "a", "max_tokens": 1})" + std::string(3000, ' ');
  HttpClient& client = open(fmt::format("{}Content-Length: {}\r\n\r\n", kHead, body.size()));
  for (size_t at = 0; at < body.size(); at += 300) {  // 800 ms in all
    ASSERT_TRUE(client.send(body.substr(at, 300)));
    std::this_thread::sleep_for(milliseconds(75));
  }
  EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(SlowClients, ResponsesThatAreReadTooSlowlyAreBrokenOff) {
  options_.limits.send = milliseconds(1000);  // A busy machine may stop a good client for a while.
  options_.limits.slowest_rate = 1 << 20;
  options_.limits.send_buffer_bytes = 4096;
  start();
  HttpClient& never = open(get_text("/openapi.json"), 2048);
  std::string many;
  for (int i = 0; i < 40; ++i) many += get_text("/openapi.json");
  HttpClient& always = open(many);
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(always.read_response().complete);
  std::this_thread::sleep_for(milliseconds(2500));
  EXPECT_FALSE(never.read_response().complete);
}

TEST_F(SlowClients, TheIdlestConnectionIsClosedWhenConnectionsRunOut) {
  options_.limits.connections = 40;
  start();
  HttpClient good(port());
  EXPECT_EQ(good.get("/health").status, 200);
  for (int i = 0; i < 200; ++i) {
    if (i % 10 == 0) {
      EXPECT_EQ(good.get("/health").status, 200);
    }
    open(i % 2 == 0 ? "" : "GET /hea");
    if (i % 20 == 0) std::this_thread::sleep_for(milliseconds(5));
  }
  expect_service();
  EXPECT_EQ(good.get("/health").status, 200);
  EXPECT_TRUE(clients_[0].closed_by_server());
  EXPECT_EQ(clients_.back().send("lth HTTP/1.1\r\nHost: x\r\n\r\n"), true);
  EXPECT_EQ(clients_.back().read_response().status, 200);  // the newest ones are still open
}

TEST_F(SlowClients, StalledUploadsMakeRoomForOthers) {
  options_.limits.held_bytes = 400'000;
  options_.limits.brief_bytes = 1000;
  start();
  const std::string head = std::string(kHead) + "Content-Length: 60000\r\n\r\n";
  for (int i = 0; i < 20; ++i) open(head + std::string(50'000, ' '));
  std::this_thread::sleep_for(milliseconds(100));
  const std::string body = R"({"prompt": "a", "max_tokens": 1})" + std::string(60'000, ' ');
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(HttpClient(port()).post("/v1/completions", body).status, 200);
}

// A head whose bytes come one by one is parsed in time that is linear in its length.
TEST_F(SlowClients, AHeadInPiecesOfOneByteIsRead) {
  start();
  HttpClient& client = open("");
  const std::string text = get_text("/health", "A: " + std::string(3000, 'a') + "\r\nB: c\r\n");
  for (const char c : text) ASSERT_TRUE(client.send({&c, 1}));
  EXPECT_EQ(client.read_response().status, 200);
}

}  // namespace
}  // namespace neuronmm::serve
