// The tests in this file kill or stop one of the processes of a server. They check what the clients
// see and how the server ends.

#include <nlohmann/json.hpp>

#include "launched_program.h"
#include "serve/http/http_client.h"

namespace neuronmm::apps {
namespace {

using serve::HttpClient;
using serve::HttpResponse;
using serve::post_text;

// The flags of mpirun: none, or those that docs/guide/several_processes.md advises. Without flags
// mpirun ends the other processes about a second after one was killed. With the advised flags they
// end themselves.
const std::string kNoFlags = "", kAdvisedFlags = "--mca orte_abort_on_non_zero_status 0 ";

class LostProcess : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (const std::string why = why_no_launch(); !why.empty()) GTEST_SKIP() << why;
  }
  std::unique_ptr<LaunchedProgram> serve(const std::string& launcher_flags,
                                         const std::string& flags = "", int processes = 2) const {
    auto server =
        std::make_unique<LaunchedProgram>(folder_.string(), processes, launcher_flags,
                                          "serve " + kDemo + " --port 0 --threads 1 " + flags);
    EXPECT_TRUE(server->eventually_prints("is ready")) << server->output();
    return server;
  }
  // Returns a request whose answers are so long that they do not end during the test.
  static std::string endless_request(bool stream, int answers = 32) {
    return post_text("/v1/completions", nlohmann::json({{"prompt", "Once upon a time"},
                                                        {"n", answers},
                                                        {"min_tokens", 480},
                                                        {"max_tokens", 480},
                                                        {"stream", stream}})
                                            .dump());
  }
  static void expect_lost(const HttpResponse& response, const std::string& message) {
    EXPECT_EQ(response.status, 503) << response.body.substr(0, 300);
    EXPECT_TRUE(response.complete);
    const auto body = nlohmann::json::parse(response.body, nullptr, false);
    ASSERT_TRUE(body.contains("error")) << response.body.substr(0, 300);
    EXPECT_EQ(body["error"]["type"], "server_error");
    EXPECT_EQ(body["error"]["code"], "lost");
    EXPECT_NE(body["error"]["message"].get<std::string>().find(message), std::string::npos)
        << response.body.substr(0, 300);
  }
  // Expects a stream that had begun with status 200 and whose last event is the error.
  static void expect_lost_stream(const HttpResponse& response, const std::string& message) {
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.complete);
    const size_t last = response.body.rfind("data: ");
    ASSERT_NE(last, std::string::npos) << response.body.substr(0, 300);
    const auto event = nlohmann::json::parse(response.body.substr(last + 6), nullptr, false);
    ASSERT_TRUE(event.contains("error")) << response.body.substr(last, 300);
    EXPECT_EQ(event["error"]["code"], "lost");
    EXPECT_NE(event["error"]["message"].get<std::string>().find(message), std::string::npos);
  }
  // Stops the last process while answers are made, then sends a request on `late`.
  static void stop_under_load(LaunchedProgram& server, int last_process, HttpClient& streamed,
                              HttpClient& unstreamed, HttpClient& late) {
    streamed.send(endless_request(true));
    unstreamed.send(endless_request(false));
    ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] {
      return HttpClient(server.port())
                 .get("/metrics")
                 .body.find("num_requests_running{engine=\"0\",model_name=\"demo\"} 64") !=
             std::string::npos;
    })) << server.output();
    server.signal(last_process, SIGSTOP);
    late.send(endless_request(false));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
};

TEST_F(LostProcess, ClientsGetAnErrorIfAProcessIsKilled) {
  for (const std::string& flags : {kNoFlags, kAdvisedFlags}) {
    for (const int processes : {2, 3}) {
      SCOPED_TRACE(fmt::format("[{}] {} processes", flags, processes));
      const auto server = serve(flags, "", processes);
      const int port = server->port();
      HttpClient streamed(port), unstreamed(port), late(port);
      stop_under_load(*server, processes - 1, streamed, unstreamed, late);
      server->signal(processes - 1, SIGKILL);
      const std::string lost = fmt::format("process {} of {}", processes - 1, processes);
      expect_lost(unstreamed.read_response(), lost);
      expect_lost(late.read_response(), lost);
      expect_lost_stream(streamed.read_response(), lost);
      EXPECT_NE(server->wait_for_exit().value_or(0), 0);
      EXPECT_EQ(server->exit_code_of_first(), 1);
      EXPECT_NE(server->output().find("neuronmm serve: " + lost), std::string::npos)
          << server->output();
      EXPECT_TRUE(server->all_processes_end());
    }
  }
}

TEST_F(LostProcess, AnIdleServerEndsIfAProcessIsKilled) {
  for (const std::string& flags : {kNoFlags, kAdvisedFlags}) {
    SCOPED_TRACE(flags);
    const auto server = serve(flags);
    server->signal(1, SIGKILL);
    EXPECT_NE(server->wait_for_exit().value_or(0), 0);
    EXPECT_EQ(server->exit_code_of_first(), 1);
    EXPECT_NE(server->output().find("process 1 of 2 on"), std::string::npos) << server->output();
    EXPECT_TRUE(server->all_processes_end());
  }
}

TEST_F(LostProcess, AHangingProcessIsLostAfterTheTimeout) {
  const auto server = serve(kNoFlags, "--link-timeout 2");
  HttpClient streamed(server->port()), unstreamed(server->port()), late(server->port());
  stop_under_load(*server, 1, streamed, unstreamed, late);
  expect_lost(unstreamed.read_response(), "no sign of life for 2 s");
  expect_lost(late.read_response(), "no sign of life for 2 s");
  expect_lost_stream(streamed.read_response(), "process 1 of 2 on");
  EXPECT_EQ(server->wait_for_exit(), 1);
  EXPECT_TRUE(server->all_processes_end());
}

TEST_F(LostProcess, LosingTheFirstProcessEndsTheOthers) {
  for (const std::string& flags : {kNoFlags, kAdvisedFlags}) {
    SCOPED_TRACE(flags);
    const auto server = serve(flags, "", 3);
    server->signal(0, SIGKILL);
    EXPECT_NE(server->wait_for_exit().value_or(0), 0);
    EXPECT_TRUE(server->all_processes_end());
  }
}

// If the launcher gets the signal, it waits silently for its whole timeout and then kills the
// processes that are left. MPI cannot be finalized in that time, so no process has a meaningful
// exit code.
TEST_F(LostProcess, ASignalLetsAnswersFinish) {
  for (const bool to_launcher : {false, true}) {
    SCOPED_TRACE(to_launcher);
    const auto server = serve("--mca odls_base_sigkill_timeout 15 ");
    HttpClient client(server->port());
    client.send(endless_request(true, 4));
    EXPECT_FALSE(client.read_some().empty());
    if (to_launcher) {
      server->signal_launcher(SIGTERM);
    } else {
      server->signal(0, SIGTERM);
    }
    std::string text;
    for (std::string more = client.read_some(); !more.empty(); more = client.read_some()) {
      text += more;
    }
    EXPECT_NE(text.find("data: [DONE]"), std::string::npos)
        << text.substr(text.size() - std::min<size_t>(text.size(), 500)) << server->output();
    ASSERT_TRUE(server->wait_for_exit().has_value());
    if (!to_launcher) {
      EXPECT_EQ(server->exit_code_of_first(), 0) << server->output();
    }
    EXPECT_TRUE(server->all_processes_end());
  }
}

// All processes finish the current pass and then end in an orderly way.
TEST_F(LostProcess, ASecondSignalCancelsAnswers) {
  const auto server = serve(kNoFlags);
  HttpClient client(server->port());
  client.send(endless_request(false));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  server->signal(0, SIGTERM);
  EXPECT_TRUE(server->eventually_prints("no new requests are taken"));
  server->signal(0, SIGTERM);
  const HttpResponse response = client.read_response();
  EXPECT_EQ(response.status, 503) << response.body.substr(0, 300);
  EXPECT_NE(response.body.find("\"cancelled\""), std::string::npos) << response.body.substr(0, 300);
  EXPECT_EQ(server->wait_for_exit(), 1);
  EXPECT_EQ(server->exit_code_of_first(), 1) << server->output();
  EXPECT_TRUE(server->all_processes_end());
}

}  // namespace
}  // namespace neuronmm::apps
