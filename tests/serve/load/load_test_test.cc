// Requests that are answered.

#include "serve/load/load_test.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "base/interrupt.h"
#include "loaded.h"

namespace neuronmm::load {
namespace {

using Peer = ScriptedServer::Peer;

bool send_whole(Peer& peer, const std::string& events) {
  return peer.send(stream_head() + chunk(events) + last_chunk());
}

TEST(LoadTest, EveryPromptIsAskedOnceOnConnectionsThatStay) {
  std::mutex mutex;
  std::multiset<std::string> asked;
  const ScriptedServer server([&](const ScriptedRequest& request, Peer& peer) {
    EXPECT_TRUE(request.head.starts_with("POST /v1/completions HTTP/1.1\r\n")) << request.head;
    EXPECT_THAT(request.head, testing::HasSubstr("\r\nAuthorization: Bearer key"));
    const std::lock_guard lock(mutex);
    asked.insert(nlohmann::json::parse(request.body)["prompt"].get<std::string>());
    return send_whole(peer, whole_stream(8));
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 4;
  settings.api_key = "key";
  const LoadMeasurement measured = load(settings, 100);
  EXPECT_EQ(measured.completed.size(), 100u);
  EXPECT_TRUE(measured.errors.empty());
  EXPECT_EQ(asked.size(), 100u);
  EXPECT_EQ(std::set<std::string>(asked.begin(), asked.end()).size(), 100u);
  EXPECT_LE(server.connections(), 4);
  EXPECT_LE(measured.peak_concurrency, 4);
  for (const RequestTiming& timing : measured.completed) {
    EXPECT_EQ(timing.output_tokens, 8);
    EXPECT_EQ(timing.prompt_tokens, 4);
    EXPECT_EQ(timing.gaps.size(), 7u);
  }
}

// The server's delays are lower bounds of every time. That nothing is added shows in the fastest
// request: on a machine that does other work as well others may wait longer.
TEST(LoadTest, TimesAreTheServersDelays) {
  constexpr int kFirst = 60, kBetween = 20, kTokens = 5;
  const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
    peer.send(stream_head());
    sleep_ms(kFirst);
    for (int i = 0; i < kTokens; ++i) {
      if (i > 0) sleep_ms(kBetween);
      peer.send(chunk(token_event(" t")));
    }
    return peer.send(chunk(finish_event() + usage_event(4, kTokens) + kDoneEvent) + last_chunk());
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 3;
  const LoadMeasurement measured = load(settings, 12);
  ASSERT_EQ(measured.completed.size(), 12u);
  double least_ttft = 1e9, least_tpot = 1e9, least_latency = 1e9;
  for (const RequestTiming& timing : measured.completed) {
    EXPECT_GE(timing.ttft, kFirst / 1e3);
    EXPECT_EQ(timing.gaps.size(), kTokens - 1u);
    // What came late makes the next gap shorter; together they are what the server waited, less
    // the delay of the first token's reading.
    EXPECT_GE(timing.latency, (kFirst + (kTokens - 1) * kBetween) / 1e3);
    least_ttft = std::min(least_ttft, timing.ttft);
    least_tpot = std::min(least_tpot, *timing.tpot());
    least_latency = std::min(least_latency, timing.latency);
  }
  EXPECT_LT(least_ttft, kFirst / 1e3 + 0.05);
  EXPECT_LT(least_tpot, kBetween / 1e3 + 0.02);
  EXPECT_LT(least_latency, (kFirst + (kTokens - 1) * kBetween) / 1e3 + 0.1);
  EXPECT_GE(measured.duration, 4 * (kFirst + (kTokens - 1) * kBetween) / 1e3);
  EXPECT_EQ(measured.peak_concurrency, 3);
}

// TCP and HTTP's chunks cut events anywhere, inside of characters too.
TEST(LoadTest, StreamsMayBeCutAnywhere) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  const ScriptedServer server([&](const ScriptedRequest& request, Peer& peer) {
    std::mt19937 random(seed + static_cast<unsigned>(request.index));
    std::string bytes = stream_head();
    const std::string events =
        ": ping\r\n\r\n" + token_event(" \xC3\xA4\xF0\x9F\x98\x80") + whole_stream(6);
    for (std::string_view rest = events; !rest.empty();) {
      const size_t piece = 1 + random() % 40;
      bytes += chunk(rest.substr(0, piece));
      rest.remove_prefix(std::min(piece, rest.size()));
    }
    bytes += last_chunk();
    for (std::string_view rest = bytes; !rest.empty();) {
      const size_t piece = 1 + random() % 60;
      if (!peer.send(rest.substr(0, piece))) return false;
      if (random() % 8 == 0) std::this_thread::yield();
      rest.remove_prefix(std::min(piece, rest.size()));
    }
    return true;
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 4;
  const LoadMeasurement measured = load(settings, 60);
  EXPECT_EQ(measured.completed.size(), 60u);
  EXPECT_TRUE(measured.errors.empty()) << measured.errors.begin()->second.first_message;
}

TEST(LoadTest, BodiesWithALengthAndThoseThatEndWithTheConnection) {
  const ScriptedServer server([&](const ScriptedRequest& request, Peer& peer) {
    if (request.index % 2 == 0)
      return peer.send(response(200, "text/event-stream", whole_stream(3)));
    peer.send("HTTP/1.0 200 OK\r\nContent-Type: Text/Event-Stream\r\n\r\n" + whole_stream(3));
    return false;
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 1;
  EXPECT_EQ(load(settings, 6).completed.size(), 6u);
}

// The tokens of a server that tells no usage are those of its text.
TEST(LoadTest, TokensThatAreNotToldAreCounted) {
  const std::string text = "Once upon a time there was";
  const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
    return send_whole(peer,
                      token_event(text.substr(0, 9)) + token_event(text.substr(9)) + kDoneEvent);
  });
  const LoadMeasurement measured = load(settings_for(server), 2);
  ASSERT_EQ(measured.completed.size(), 2u);
  const auto ids = demo_tokenizer().encode(text, {.add_special_tokens = false});
  for (const RequestTiming& timing : measured.completed)
    EXPECT_EQ(timing.output_tokens, std::ssize(*ids));
}

// A server closes connections that wait for a request; the next request finds out.
TEST(LoadTest, AConnectionThatWasClosedIsMadeAnew) {
  const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
    send_whole(peer, whole_stream(2));
    return false;  // although nothing said so
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 1;
  const LoadMeasurement measured = load(settings, 10);
  EXPECT_EQ(measured.completed.size(), 10u);
  EXPECT_TRUE(measured.errors.empty());
}

TEST(LoadTest, RequestsComeAtTheirRate) {
  std::mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> times;
  const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
    {
      const std::lock_guard lock(mutex);
      times.push_back(std::chrono::steady_clock::now());
    }
    return send_whole(peer, whole_stream(1));
  });
  LoadSettings settings = settings_for(server);
  settings.arrivals = {.rate = 100.0, .burstiness = 1.0, .seed = 5};
  const LoadMeasurement measured = load(settings, 60);
  EXPECT_EQ(measured.completed.size(), 60u);
  const auto planned = arrival_times(60, settings.arrivals);
  std::ranges::sort(times);
  const double took = std::chrono::duration<double>(times.back() - times.front()).count();
  EXPECT_NEAR(took, planned.back(), 0.3);
  EXPECT_GE(measured.duration, planned.back());
}

TEST(LoadTest, AllAtOnceAreAllAtOnce) {
  constexpr int kCount = 200;
  std::atomic<int> waiting = 0;
  const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
    ++waiting;
    for (int i = 0; i < 3000 && waiting < kCount; ++i) sleep_ms(10);
    return send_whole(peer, whole_stream(1));
  });
  const LoadMeasurement measured = load(settings_for(server), kCount);
  EXPECT_EQ(measured.completed.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(measured.peak_concurrency, kCount);
  EXPECT_EQ(server.connections(), kCount);
}

double thread_seconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The client must not be what is measured: an event that it reads alone may cost a fifth of a
// millisecond of its time (it costs 8 us), so that it keeps up with 5,000 in a second.
TEST(LoadTest, TheClientKeepsUpWithThousandsOfEvents) {
  constexpr int kTokens = 200, kRequests = 64;
  const std::string token = chunk(token_event(" token"));
  const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
    peer.send(stream_head());
    for (int i = 0; i < kTokens; ++i) {
      if (!peer.send(token)) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    return peer.send(chunk(usage_event(4, kTokens) + kDoneEvent) + last_chunk());
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 32;
  const double before = thread_seconds();
  const LoadMeasurement measured = load(settings, kRequests);
  const double per_event = (thread_seconds() - before) / (kRequests * kTokens);
  EXPECT_EQ(measured.completed.size(), static_cast<size_t>(kRequests));
  RecordProperty("microseconds_per_event", std::to_string(per_event * 1e6));
#ifndef NEURONMM_SANITIZED
  EXPECT_LT(per_event, 200e-6);
#endif
}

TEST(LoadTest, AnInterruptKeepsWhatWasFinished) {
  const ScriptedServer server([&](const ScriptedRequest& request, Peer& peer) {
    if (request.index < 5) return send_whole(peer, whole_stream(4));
    peer.send(stream_head() + chunk(token_event("x")));
    set_interrupted(true);
    peer.wait_until_client_closes();
    return false;
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 2;
  const LoadMeasurement measured = load(settings, 20);
  set_interrupted(false);
  EXPECT_TRUE(measured.interrupted);
  EXPECT_EQ(measured.completed.size(), 5u);
  EXPECT_GE(measured.unfinished, 1);
  EXPECT_LE(measured.unfinished, 2);
  EXPECT_TRUE(measured.errors.empty());
}

TEST(ModelName, IsTheFirstOfTheServers) {
  const ScriptedServer server([&](const ScriptedRequest& request, Peer& peer) {
    EXPECT_TRUE(request.head.starts_with("GET /v1/models HTTP/1.1\r\n"));
    return peer.send(response(200, "application/json", R"({"data":[{"id":"demo"}]})"));
  });
  const auto name = ask_model_name(settings_for(server));
  ASSERT_TRUE(name.ok()) << name.error().message;
  EXPECT_EQ(*name, "demo");
}

TEST(LoadTest, MessagesAreForChats) {
  const ScriptedServer server([](const ScriptedRequest&, Peer&) { return false; });
  auto prompts = some_prompts(1);
  prompts[0].messages = nlohmann::json::array();
  Progress silent;
  EXPECT_FALSE(measure_load(settings_for(server), prompts, demo_tokenizer(), silent).ok());
}

}  // namespace
}  // namespace neuronmm::load
