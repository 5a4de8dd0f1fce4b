// Everything that a server can do instead of an answer: counted by kind, told, and never waited for
// longer than was asked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "loaded.h"

namespace neuronmm::load {
namespace {

using testing::HasSubstr;
using Peer = ScriptedServer::Peer;

struct FailureCase {
  const char* name;
  std::string sent;  // then the connection is closed
  const char* kind;
  const char* message;
};

std::vector<FailureCase> failures() {
  const std::string error = R"({"error":{"message":"no such thing","code":"x"}})";
  const std::string one = stream_head() + chunk(token_event("a"));
  return {
      {"nothing", "", "disconnected", ""},
      {"status 401", response(401, "application/json", error), "status 401", "no such thing"},
      {"status 404", response(404, "text/html", "<h1>Not Found"), "status 404", "<h1>Not Found"},
      {"status 429", response(429, "application/json", error), "status 429", "no such thing"},
      {"status 500", response(500, "text/event-stream", error), "status 500", "no such thing"},
      {"status 503, cut", "HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\nsoon", "status 503", "soon"},
      {"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", "malformed response", ""},
      {"half a head", "HTTP/1.1 200 O", "disconnected", ""},
      {"a bad chunk", stream_head() + "zz\r\n", "malformed response", ""},
      {"an endless header", "HTTP/1.1 200 OK\r\nX: " + std::string(100000, 'x'),
       "malformed response", ""},
      {"JSON", response(200, "application/json", R"({"choices":[]})"), "no event stream",
       "application/json"},
      {"no type", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "no event stream", "hi"},
      {"cut off", one, "disconnected", ""},
      {"cut off inside an event", stream_head() + chunk("data: {\"choi"), "disconnected", ""},
      {"no [DONE]", one + last_chunk(), "truncated stream", "without [DONE]"},
      {"half an event", one + chunk("data: {\"cho") + last_chunk(), "truncated stream",
       "inside an event"},
      {"an empty stream", stream_head() + last_chunk(), "truncated stream", "[DONE]"},
      {"garbage", one + chunk("data: {garbage\n\n") + last_chunk(), "malformed event", ""},
      {"no chunk", one + chunk("data: {\"a\":1}\n\n") + last_chunk(), "malformed event", "choices"},
      {"deep garbage", one + chunk("data: " + std::string(50000, '[') + "\n\n") + last_chunk(),
       "malformed event", ""},
      {"an error event", one + chunk("data: " + error + "\n\n") + last_chunk(), "error event",
       "no such thing"},
      {"no token", stream_head() + chunk(finish_event() + kDoneEvent) + last_chunk(), "no tokens",
       ""},
  };
}

TEST(ServerFailures, AreCountedByTheirKind) {
  for (const FailureCase& expected : failures()) {
    SCOPED_TRACE(expected.name);
    const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
      peer.send(expected.sent);
      return false;
    });
    LoadSettings settings = settings_for(server);
    settings.concurrency = 2;
    const LoadMeasurement measured = load(settings, 3);
    EXPECT_TRUE(measured.completed.empty());
    ASSERT_EQ(measured.errors.size(), 1u);
    EXPECT_EQ(measured.errors.begin()->first, expected.kind);
    EXPECT_EQ(measured.errors.begin()->second.count, 3);
    EXPECT_THAT(measured.errors.begin()->second.first_message, HasSubstr(expected.message));
  }
}

TEST(ServerFailures, OthersAreAnsweredMeanwhile) {
  const ScriptedServer server([&](const ScriptedRequest& request, Peer& peer) {
    if (nlohmann::json::parse(request.body)["prompt"].get<std::string>().ends_with("3")) {
      peer.send(response(429, "application/json", "{}"));
      return true;
    }
    return peer.send(stream_head() + chunk(whole_stream(2)) + last_chunk());
  });
  LoadSettings settings = settings_for(server);
  settings.concurrency = 3;
  const LoadMeasurement measured = load(settings, 40);
  EXPECT_EQ(measured.completed.size(), 36u);
  EXPECT_EQ(measured.errors.at("status 429").count, 4);
}

TEST(ServerFailures, NoServer) {
  LoadSettings settings;
  {
    const ScriptedServer gone([](const ScriptedRequest&, Peer&) { return false; });
    settings = settings_for(gone);
  }
  const LoadMeasurement measured = load(settings, 3);
  EXPECT_EQ(measured.errors.at("connect").count, 3);
  EXPECT_THAT(measured.errors.at("connect").first_message, HasSubstr("refused"));
  const auto name = ask_model_name(settings);
  ASSERT_FALSE(name.ok());
  EXPECT_THAT(name.error().message, HasSubstr("http://127.0.0.1:"));
}

TEST(ServerFailures, NoHost) {
  LoadSettings settings;
  settings.url = *parse_server_url("http://no-such-host.invalid:80");
  EXPECT_EQ(load(settings, 3).errors.at("connect").count, 3);
}

TEST(ServerFailures, NoModels) {
  const ScriptedServer server([](const ScriptedRequest& request, Peer& peer) {
    return request.index == 0
               ? peer.send(response(401, "application/json", R"({"error":{"message":"no key"}})"))
               : peer.send(response(200, "text/html", "<html>"));
  });
  const auto refused = ask_model_name(settings_for(server));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, testing::AllOf(HasSubstr("401"), HasSubstr("no key")));
  EXPECT_FALSE(ask_model_name(settings_for(server)).ok());
}

// A server may stall before the head, inside of it, and between two tokens.
TEST(ServerFailures, TheTimeoutIsKept) {
  const std::string all = stream_head() + chunk(token_event("a"));
  for (const size_t sent : {size_t{0}, size_t{9}, stream_head().size(), all.size()}) {
    const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
      peer.send(all.substr(0, sent));
      peer.wait_until_client_closes();
      return false;
    });
    LoadSettings settings = settings_for(server);
    settings.timeout = std::chrono::milliseconds(150);
    const LoadMeasurement measured = load(settings, 2);
    EXPECT_EQ(measured.errors.at("timeout").count, 2) << sent;
    EXPECT_GE(measured.duration, 0.15);
    EXPECT_LT(measured.duration, 5.0);
  }
}

// A stream that has told [DONE] is an answer, although the server then neither ends nor closes it.
TEST(ServerFailures, AStreamThatStaysOpenIsNotWaitedFor) {
  const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
    peer.send(stream_head() + chunk(whole_stream(2)));
    peer.wait_until_client_closes();
    return false;
  });
  const LoadMeasurement measured = load(settings_for(server), 2);
  EXPECT_EQ(measured.completed.size(), 2u);
  EXPECT_LT(measured.duration, 10.0);
}

// Endless bodies are left, not read.
TEST(ServerFailures, EndlessBodiesEnd) {
  for (const std::string head :
       {"HTTP/1.1 500 X\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"}) {
    const ScriptedServer server([&](const ScriptedRequest&, Peer& peer) {
      peer.send(head);
      const std::string bytes(size_t{1} << 20, 'x');
      for (int i = 0; i < 200; ++i) {
        if (!peer.send(bytes)) return false;
      }
      ADD_FAILURE() << "the client has read 200 MiB";
      return false;
    });
    EXPECT_EQ(load(settings_for(server), 1).completed.size(), 0u);
  }
}

}  // namespace
}  // namespace neuronmm::load
