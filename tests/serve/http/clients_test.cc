// Tests what the server does for each client: who the client is, how many connections and bytes it
// may hold, and its share of the threads.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>

#include "serve/http/client_identity.h"
#include "serve/http/connection_table.h"
#include "serve/http/served_demo.h"
#include "serve/http/work_pool.h"

namespace neuronmm::serve {
namespace {

TrustedProxies proxies(const std::vector<std::string>& texts) {
  auto parsed = TrustedProxies::parse(texts);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return std::move(parsed).value();
}

TEST(ClientIdentity, TheLastAddressThatIsNoTrustedProxyIsTheClient) {
  const TrustedProxies trusted = proxies({"127.0.0.1", "10.0.0.0/8", "fd00::/8"});
  const auto client = [&](const char* peer, const char* header) {
    return trusted.client_address(peer, header);
  };
  EXPECT_EQ(client("127.0.0.1", "1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(client("127.0.0.1", "6.6.6.6, 1.2.3.4"), "1.2.3.4");  // the client wrote the first one
  EXPECT_EQ(client("127.0.0.1", "6.6.6.6, 1.2.3.4,10.9.8.7 , fd00::1"), "1.2.3.4");
  EXPECT_EQ(client("10.255.0.1", "1.2.3.4:5678"), "1.2.3.4");
  EXPECT_EQ(client("fd12::9", "[2001:db8::1]:5678"), "2001:db8::1");
  EXPECT_EQ(client("::ffff:127.0.0.1", "2001:DB8:0::1"), "2001:db8::1");
  EXPECT_EQ(client("127.0.0.1", "10.1.1.1"), "10.1.1.1");  // a client inside the network
}

TEST(ClientIdentity, TheHeaderOfStrangersAndNonsenseIsIgnored) {
  const TrustedProxies trusted = proxies({"127.0.0.1"});
  EXPECT_EQ(trusted.client_address("8.8.8.8", "1.2.3.4"), "8.8.8.8");
  EXPECT_EQ(proxies({}).client_address("127.0.0.1", "1.2.3.4"), "127.0.0.1");
  for (const char* header : {"", "unknown", "_hidden", "1.2.3", "1.2.3.4, x", ",", "[::1", "a:1"})
    EXPECT_EQ(trusted.client_address("127.0.0.1", header), "127.0.0.1") << header;
}

TEST(ClientIdentity, WrongProxiesAreRefusedByName) {
  for (const char* text : {"", "localhost", "1.2.3", "1.2.3.4/33", "1.2.3.4/", "::1/129", "::1/-1",
                           "1.2.3.4/8x", "1.2.3.4:80"}) {
    const auto parsed = TrustedProxies::parse({text});
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message.find(fmt::format("{:?}", text)), std::string::npos);
  }
}

TEST(ClientIdentity, HostsOfAnIpv6NetworkAreOneClient) {
  EXPECT_EQ(client_of_address("1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(client_of_address("::ffff:1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(client_of_address("2001:db8:1:2::1"), client_of_address("2001:db8:1:2:ffff::9"));
  EXPECT_NE(client_of_address("2001:db8:1:2::1"), client_of_address("2001:db8:1:3::1"));
  EXPECT_EQ(client_of_address(""), "");
}

// A connection that has used a part of its time.
class FakeConnection : public Connection {
 public:
  explicit FakeConnection(std::optional<double> used_in) : used(used_in) {}
  void on_tick(Clock::time_point) override {}
  void close_if_idle() override {}
  void close() override { closed = true; }
  std::optional<double> used_time(Clock::time_point) const override { return used; }

  std::optional<double> used;
  bool closed = false;
};

class Connections : public testing::Test {
 protected:
  FakeConnection& add(const std::string& client, std::optional<double> used) {
    table_.add(connections_.emplace_back(used), client);
    return connections_.back();
  }

  ConnectionTable table_{{.connections = 6,
                          .connections_of_client = 3,
                          .bytes = 1000,
                          .bytes_of_client = 400,
                          .brief_bytes = 10}};
  std::deque<FakeConnection> connections_;
};

TEST_F(Connections, AFullClientLosesItsSlowestConnection) {
  add("a", 0.1);
  const FakeConnection& slowest = add("a", 0.9);
  const FakeConnection& busy = add("a", std::nullopt);
  const FakeConnection& other = add("b", 1.0);
  EXPECT_TRUE(table_.make_room("a"));
  EXPECT_TRUE(slowest.closed);
  EXPECT_FALSE(busy.closed || other.closed);
  EXPECT_EQ(table_.size(), 3);
}

TEST_F(Connections, AClientWhoseConnectionsAllWaitForTheServerGetsNoMore) {
  for (int i = 0; i < 3; ++i) add("a", std::nullopt);
  EXPECT_FALSE(table_.make_room("a"));
  EXPECT_TRUE(table_.make_room("b"));
}

TEST_F(Connections, AFullTableLosesItsSlowestConnection) {
  for (int i = 0; i < 3; ++i) add("a", 0.2);
  for (int i = 0; i < 3; ++i) add("", i / 3.0);  // those of a trusted proxy
  EXPECT_TRUE(table_.make_room(""));
  EXPECT_TRUE(connections_[5].closed);
  EXPECT_EQ(table_.size(), 5);
}

TEST_F(Connections, BytesAreTakenFromTheClientThatHasTooMany) {
  FakeConnection& first = add("a", 0.5);
  FakeConnection& second = add("a", 0.1);
  FakeConnection& other = add("b", 0.9);
  EXPECT_TRUE(table_.set_bytes(first, 300));
  EXPECT_TRUE(table_.set_bytes(other, 300));
  EXPECT_TRUE(table_.set_bytes(second, 300));
  EXPECT_TRUE(first.closed);
  EXPECT_FALSE(other.closed);
  EXPECT_EQ(table_.bytes(), 600u);
  EXPECT_FALSE(table_.set_bytes(second, 401));  // alone more than a client may have
  EXPECT_TRUE(table_.set_bytes(second, 10));
  table_.remove(second);
  EXPECT_EQ(table_.bytes(), 300u);
}

TEST_F(Connections, BytesBeyondTheLimitOfAllAreTakenFromTheLargestClient) {
  FakeConnection& largest = add("a", 0.1);
  EXPECT_TRUE(table_.set_bytes(largest, 400));
  EXPECT_TRUE(table_.set_bytes(add("b", std::nullopt), 350));
  EXPECT_TRUE(table_.set_bytes(add("c", 0.9), 240));
  EXPECT_TRUE(table_.set_bytes(add("d", 0.0), 100));
  EXPECT_TRUE(largest.closed);
  EXPECT_EQ(table_.bytes(), 690u);
  FakeConnection& next = add("e", 0.0);
  EXPECT_FALSE(table_.set_bytes(next, 311));  // the largest client waits for the server
  EXPECT_TRUE(table_.set_bytes(next, 10));
}

TEST_F(Connections, BytesMoveWithTheClientOfAConnection) {
  FakeConnection& connection = add("", 0.0);
  EXPECT_TRUE(table_.set_bytes(connection, 350));
  table_.set_client(connection, "a");
  EXPECT_TRUE(table_.set_bytes(add("", 0.0), 350));
  EXPECT_FALSE(table_.set_bytes(connection, 450));
  table_.remove(connection);
  table_.remove(connection);
  EXPECT_EQ(table_.bytes(), 350u);
  EXPECT_EQ(table_.size(), 1);
}

// Work that ends when the test says so, and notes the order in which it began.
class Pool : public testing::Test {
 protected:
  ~Pool() override { release(); }

  void post(const std::string& client, size_t bytes, const std::string& name) {
    pool_.post(client, bytes, [this, name] {
      std::unique_lock lock(mutex_);
      begun_.push_back(name);
      changed_.notify_all();
      changed_.wait(lock, [&] { return released_ || std::ranges::count(ended_, name) > 0; });
    });
  }
  void end(const std::string& name) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(name);
    changed_.notify_all();
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  // Returns the names of the work that has begun when there are `count` of them.
  std::vector<std::string> begun(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return begun_.size() >= count; });
    std::vector<std::string> names = begun_;
    std::ranges::sort(names);
    return names;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> begun_, ended_;
  bool released_ = false;
  WorkPool pool_;  // ends first
};

constexpr size_t kLarge = WorkPool::kLargeBytes;
using Names = std::vector<std::string>;

TEST_F(Pool, SmallBodiesDoNotWaitForTheLargeOnesOfTheirClient) {
  for (const char* name : {"large 1", "large 2", "large 3"}) post("a", kLarge, name);
  post("a", 1, "small");
  EXPECT_EQ(begun(2), (Names{"large 1", "small"}));
  end("small");
  end("large 1");
  EXPECT_EQ(begun(3), (Names{"large 1", "large 2", "small"}));
}

TEST_F(Pool, OneClientDoesNotOccupyAllThreads) {
  for (int i = 0; i < 200; ++i) post("a", 1, "first");
  begun(2);
  post("b", kLarge, "second");
  post("c", 1, "third");
  EXPECT_EQ(begun(4), (Names{"first", "first", "second", "third"}));
}

TEST_F(Pool, ClientsTakeTurns) {
  for (const char* client : {"a", "b"}) {
    for (int i = 0; i < 2; ++i) post(client, 1, fmt::format("{}{}", client, i));
  }
  EXPECT_EQ(begun(4), (Names{"a0", "a1", "b0", "b1"}));
  for (int i = 2; i < 50; ++i) post("a", 1, fmt::format("a{}", i));
  post("c", 1, "c0");
  end("a0");
  const Names names = begun(5);
  EXPECT_TRUE(std::ranges::count(names, "c0") == 1) << "the client that has no thread is next";
}

// Two keys are two clients, also from one address. The clients' requests wait together, and the one
// with few requests is served before those of the other.
TEST_F(HttpTest, AClientWithOneRequestDoesNotWaitForTheManyOfAnother) {
  options_.api_keys = {"many", "one"};
  engine_options_.max_sequences = 2;
  backend_.hold();
  start();
  std::deque<HttpClient> many;
  for (int i = 0; i < 10; ++i) {
    many.emplace_back(port()).send(
        post_text("/v1/completions", completion(100, false), "Authorization: Bearer many\r\n"));
    wait_for_requests(1, i);  // the first one is halted in its first step
  }
  HttpClient one(port());
  one.send(post_text("/v1/completions", completion(2, false), "X-Api-Key: one\r\n"));
  wait_for_requests(1, 10);
  backend_.release();
  EXPECT_EQ(one.read_response().status, 200);
  EXPECT_LT(engine_->statistics().generated_tokens, 500);
}

class ForwardedAddresses : public HttpTest {
 protected:
  // Lets a client stall in the middle of its body, and another one, of the same proxy, send a body
  // that leaves no room for both bodies if the two are one client. Returns the status of the answer
  // that the first one gets when it goes on, or 0 if its connection was closed.
  int status_of_first(const char* proxy) {
    options_.trusted_proxies = {proxy};
    options_.limits.held_bytes = 8000;
    options_.limits.brief_bytes = 100;
    start();
    const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.";
    HttpClient first(port()), second(port());
    first.send(head + "4\r\nContent-Length: 2000\r\n\r\n" + std::string(1500, ' '));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    second.send(head + "5\r\nContent-Length: 1500\r\n\r\n" + std::string(1500, ' '));
    EXPECT_EQ(second.read_response().status, 400);
    first.send(std::string(500, ' '));
    return first.read_response().status;
  }
};

TEST_F(ForwardedAddresses, TellTheClientsOfATrustedProxyApart) {
  EXPECT_EQ(status_of_first("127.0.0.0/8"), 400);
}

TEST_F(ForwardedAddresses, AreNotBelievedFromOthers) { EXPECT_EQ(status_of_first("10.0.0.1"), 0); }

class Priority : public HttpTest {
 protected:
  // Returns how many tokens the engine has made when the answer of an urgent request comes, which
  // arrives after a request for 300 tokens.
  int64_t tokens_before_the_urgent_answer(bool allowed) {
    parts_.allow_priority = allowed;
    engine_options_.max_sequences = 1;
    backend_.hold();
    start();
    const auto with_priority = [](int64_t priority, int64_t tokens) {
      TestJson body = TestJson::parse(completion(tokens, false));
      body["priority"] = priority;
      return post_text("/v1/completions", body.dump());
    };
    HttpClient running(port()), first(port()), urgent(port());
    running.send(with_priority(0, 2));
    wait_for_requests(1, 0);
    first.send(with_priority(0, 300));
    wait_for_requests(1, 1);
    urgent.send(with_priority(-1, 2));
    wait_for_requests(1, 2);
    backend_.release();
    EXPECT_EQ(urgent.read_response().status, 200);
    const int64_t tokens = engine_->statistics().generated_tokens;
    EXPECT_EQ(first.read_response().status, 200);
    return tokens;
  }
};

TEST_F(Priority, CountsIfItIsAllowed) { EXPECT_LT(tokens_before_the_urgent_answer(true), 300); }

TEST_F(Priority, HasNoEffectOtherwise) { EXPECT_GE(tokens_before_the_urgent_answer(false), 300); }

}  // namespace
}  // namespace neuronmm::serve
