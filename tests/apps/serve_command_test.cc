// The tests in this file run `neuronmm serve` as a user does, from its start to its end.

#include <deque>
#include <filesystem>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <pty.h>
#include <signal.h>

#include "launched_program.h"
#include "run_program.h"
#include "serve/http/http_client.h"

namespace neuronmm::apps {
namespace {

// Returns the port that a server has printed.
int port_in(const std::string& printed) {
  const std::string before = "listening on http://127.0.0.1:";
  const size_t found = printed.find(before);
  EXPECT_NE(found, std::string::npos) << printed;
  return found == std::string::npos ? 0 : std::atoi(printed.c_str() + found + before.size());
}

class ServeCommand : public ProgramTest {
 protected:
  struct StartedServer {
    int process, port;
    std::string printed;
  };
  // Starts a server with these flags, after a shell command such as "ulimit -n 100;", and returns
  // when it is ready.
  StartedServer start_server(const std::string& flags, const std::string& model = kDemo,
                             const std::string& before = "") {
    const std::string log = path("log");
    // Otherwise an earlier server's log may be read before the new server empties it.
    std::filesystem::remove(log);
    const Outcome started =
        run_shell(before + "'" + program_path().string() + "' serve '" + model + "' --port 0 " +
                  flags + " >'" + log + "' 2>&1 & for i in $(seq 400); do grep -qs 'is ready' '" +
                  log + "' && break; sleep 0.05; done; echo $!");
    const std::string text = read(log);
    return {std::atoi(started.output.c_str()), port_in(text), text};
  }

  // Starts a server of the demo model with these flags, requests each path with GET when the server
  // is ready, and ends the server. Returns what the server printed and the response bodies.
  std::pair<std::string, std::vector<nlohmann::json>> serve_and_get(
      const std::string& flags, const std::vector<std::string>& paths,
      const std::string& model = kDemo) {
    const StartedServer server = start_server(flags, model);
    std::vector<nlohmann::json> bodies;
    serve::HttpClient client(server.port);
    for (const std::string& at : paths)
      bodies.push_back(nlohmann::json::parse(client.get(at).body, nullptr, false));
    kill(server.process, SIGKILL);
    return {server.printed, bodies};
  }
};

TEST_F(ServeCommand, WrongModelsAndFlagsAreRefused) {
  expect(neuronmm("serve '" + path("nothing") + "' --port 0"), 1, {"neuronmm serve:", "nothing"});
  expect(neuronmm("serve '" + kDemo + "' --port 0 --tls-cert '" + write("cert", "no PEM") +
                  "' --tls-key '" + path("key") + "'"),
         1, {"cert", "PEM"});
  expect(neuronmm("serve '" + kDemo + "' --port 0 --access-log '" + path("no/log") + "'"), 1,
         {"no/log"});
  expect(neuronmm("serve '" + kDemo + "' --port 70000"), 2, {"--port"});
  expect(neuronmm("serve '" + kDemo + "' --metrics-prefix 'a b'"), 2, {"--metrics-prefix"});
  expect(neuronmm("serve '" + kDemo + "' --tls-key key"), 2, {"--tls-cert"});
  expect(neuronmm("serve '" + kDemo + "' --trusted-proxy localhost"), 2,
         {"--trusted-proxy", "10.0.0.0/8", "localhost"});
}

// Each of these values would open the server to everybody, or leave something out silently.
TEST_F(ServeCommand, EmptySecretsAndAddressesAreRefused) {
  const std::string serve = "serve '" + kOneLayer + "' --port 0 ";
  const std::string keys = write("keys", "\n\n"), good = write("good", "first\r\n\nsecond\n");
  for (const char* flags :
       {"--host ''", "--api-key ''", "--api-key ' '", "--tls-cert '' --tls-key ''",
        "--tls-cert=c --tls-key ''", "--access-log ''", "--cors-origin ''", "--allowed-host ''",
        "--allowed-host localhost:80", "--served-model-name ''", "--api-key-file ''",
        "--host \"$NOT_SET\""}) {
    SCOPED_TRACE(flags);
    expect(neuronmm(serve + flags), 2, {"expected "});
  }
  expect(neuronmm(serve, "NEURONMM_API_KEY="), 2, {"NEURONMM_API_KEY: expected a value"});
  expect(neuronmm(serve + "--api-key k", "NEURONMM_API_KEY="), 2, {"NEURONMM_API_KEY"});
  expect(neuronmm(serve, "NEURONMM_API_KEY=' '"), 2, {"visible ASCII"});
  expect(neuronmm(serve + "--api-key-file '" + path("no") + "'"), 1,
         {"/no: cannot be read: No such"});
  expect(neuronmm(serve + "--api-key-file '" + folder_.string() + "'"), 1, {folder_.c_str()});
  expect(neuronmm(serve + "--api-key-file '" + keys + "'"), 1,
         {"keys: expected a key on each line"});
  expect(neuronmm(serve + "--api-key-file '" + write("bad", "a\nb c\n") + "'"), 1,
         {"bad:2: expected"});
  const auto [text, bodies] =
      serve_and_get("--api-key-file '" + good + "'", {"/v1/models"}, kOneLayer);
  EXPECT_EQ(bodies[0]["error"]["code"], "invalid_api_key") << text;
}

TEST_F(ServeCommand, OtherCommandsRefuseEmptyValuesToo) {
  for (const std::string& line :
       {"inspect '" + kOneLayer + "' --json ''", "quantize '" + kOneLayer + "' -o '' --bits 8",
        std::string("inspect ''"), "perplexity '" + kOneLayer + "' x --reference ''",
        "generate '" + kOneLayer + "' --prompt-file ''",
        "generate '" + kOneLayer + "' --threads ''", "generate '" + kOneLayer + "' a --stop ''"})
    expect(neuronmm(line), 2, {"expected "});
}

class RunningServer : public ServeCommand {
 protected:
  // Starts a server of one layer and waits until it is ready. `wrapper` begins the command line.
  void start(const std::string& flags, const std::string& wrapper = "") {
    const std::string command = "exec " + wrapper + " '" + program_path().string() + "' serve '" +
                                kOneLayer + "' --port 0 " + flags + " >'" + path("out") + "' 2>&1";
    process_ = fork();
    if (process_ == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    ASSERT_TRUE(wait_until(std::chrono::seconds(60),
                           [&] { return printed().find("is ready") != std::string::npos; }));
  }
  void TearDown() override {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    ServeCommand::TearDown();
  }
  std::string printed() const { return read(path("out")); }
  int port() const { return port_in(printed()); }
  // Waits for the end of the server and returns its exit code.
  int exit_code() {
    int status = -1;
    EXPECT_TRUE(wait_until(std::chrono::seconds(30),
                           [&] { return waitpid(process_, &status, WNOHANG) == process_; }));
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  pid_t process_ = 0;
};

TEST_F(RunningServer, SighupOpensTheAccessLogAgain) {
  const std::string log = path("access.log"), old = path("access.log.1");
  start("--access-log '" + log + "'");
  serve::HttpClient client(port());
  EXPECT_EQ(client.get("/health?first").status, 200);
  ASSERT_TRUE(wait_until(std::chrono::seconds(10), [&] { return !read(log).empty(); }));
  std::filesystem::rename(log, old);
  kill(process_, SIGHUP);
  ASSERT_TRUE(wait_until(std::chrono::seconds(10), [&] { return std::filesystem::exists(log); }));
  EXPECT_EQ(client.get("/version").status, 200);
  ASSERT_TRUE(wait_until(std::chrono::seconds(10), [&] { return !read(log).empty(); }));
  EXPECT_EQ(nlohmann::json::parse(read(old))["path"], "/health");
  EXPECT_EQ(nlohmann::json::parse(read(log))["path"], "/version");
  kill(process_, SIGTERM);
  EXPECT_EQ(exit_code(), 0) << printed();
}

TEST_F(RunningServer, SighupWithoutALogFileChangesNothing) {
  start("--access-log -");
  kill(process_, SIGHUP);
  serve::HttpClient client(port());
  EXPECT_EQ(client.get("/health").status, 200);
  ASSERT_TRUE(wait_until(std::chrono::seconds(10),
                         [&] { return printed().find("\"/health\"") != std::string::npos; }));
}

TEST_F(RunningServer, AFullDiskIsReportedOnceAndCountedInAMetric) {
  start("--access-log /dev/full");
  serve::HttpClient client(port());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(client.get("/health").status, 200);
  const std::string counted = "\nhttp_access_log_lost_lines_total ";
  ASSERT_TRUE(wait_until(std::chrono::seconds(10), [&] {
    const std::string metrics = client.get("/metrics").body;
    const size_t at = metrics.find(counted);
    return at != std::string::npos && std::atoi(metrics.c_str() + at + counted.size()) >= 5;
  }));
  const std::string text = printed(),
                    full = "/dev/full: the access log cannot be written: No space";
  EXPECT_NE(text.find(full), std::string::npos) << text;
  EXPECT_EQ(text.find(full, text.find(full) + 1), std::string::npos) << text;
}

// The server runs in a terminal of its own.
TEST_F(RunningServer, AClosedTerminalEndsTheServerInOrder) {
  int terminal = -1;
  process_ = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (process_ == 0) {
    const std::string command = "exec '" + program_path().string() + "' serve '" + kOneLayer +
                                "' --port 0 >'" + path("out") + "' 2>&1";
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  ASSERT_TRUE(wait_until(std::chrono::seconds(60),
                         [&] { return printed().find("is ready") != std::string::npos; }));
  kill(process_, SIGHUP);  // the terminal is open, so the server goes on
  EXPECT_EQ(serve::HttpClient(port()).get("/health").status, 200);
  close(terminal);
  EXPECT_EQ(exit_code(), 0) << printed();
  EXPECT_NE(printed().find("no new requests are taken"), std::string::npos) << printed();
}

// The model is missing, so the server ends even if it accepts the origin.
TEST_F(ServeCommand, TheHelpShowsTheDefaults) {
  const Outcome help = neuronmm("serve --help-all");
  for (const char* flag : {"--host", "--port", "--max-num-seqs", "--max-queued-tokens",
                           "--max-queued-requests", "--prefill-chunk", "--shutdown-timeout",
                           "--sse-ping-interval", "--metrics-prefix", "--pooling"}) {
    const size_t begin = help.output.find(std::string("\n  ") + flag + " ");
    ASSERT_NE(begin, std::string::npos) << flag << help.output;
    const size_t end = help.output.find("\n  -", begin + 1);
    EXPECT_NE(help.output.substr(begin, end - begin).find("(default"), std::string::npos) << flag;
  }
}

TEST_F(ServeCommand, CorsOriginsMustHaveTheFormThatBrowsersSend) {
  const auto with_origin = [&](const std::string& origin) {
    return neuronmm("serve '" + path("nothing") + "' --port 0 --cors-origin '" + origin + "'");
  };
  for (const char* origin : {"*", "null", "http://localhost", "http://localhost:3000",
                             "https://example.org:8443", "http://[::1]:3000", "tauri://localhost"})
    expect(with_origin(origin), 1, {"nothing"});
  for (const char* origin :
       {"foo", "localhost:3000", "https://example.org/", "https://example.org/page", "https://",
        "http://*.example.org", "https://Example.org", "https://example.org:443", "http://a:b",
        "http://[::1"})
    expect(with_origin(origin), 2, {"--cors-origin", "https://example.org (", origin});
}

TEST_F(ServeCommand, TheContextLengthIsLimitedByModelFlagAndMemory) {
  const std::vector<std::string> paths = {"/v1/models", "/v1/model"};
  const auto context = [](const std::vector<nlohmann::json>& bodies) {
    EXPECT_EQ(bodies[0]["data"][0]["max_model_len"], bodies[1]["context_length"]);
    return bodies[1]["context_length"];
  };
  // The memory holds two and a half blocks.
  const auto [limited_by_memory, small] = serve_and_get("--kv-cache-memory 640KiB", paths);
  EXPECT_EQ(context(small), 256);
  EXPECT_NE(
      limited_by_memory.find("--kv-cache-memory 655.4 kB: the context is 256 tokens, not 512"),
      std::string::npos)
      << limited_by_memory;
  const auto [limited_by_model, large] = serve_and_get("--context-length 1000", paths);
  EXPECT_EQ(context(large), 512);
  EXPECT_NE(limited_by_model.find("--context-length 1000: the context is 512 tokens"),
            std::string::npos)
      << limited_by_model;
  const auto [silent, fitting] =
      serve_and_get("--context-length 200 --kv-cache-memory 512KiB", paths);
  EXPECT_EQ(context(fitting), 200);
  EXPECT_EQ(silent.find("--"), std::string::npos) << silent;
  expect(neuronmm("serve '" + kDemo + "' --port 0 --kv-cache-memory 1K"), 1,
         {"--kv-cache-memory: expected at least 262.2 kB, which 128 tokens take, found 1.0 kB"});
}

TEST_F(ServeCommand, TheDenseModelOfARoundedOneHasTwoBytesPerWeight) {
  const auto details = [&](const std::string& model) {
    return serve_and_get("", {"/v1/model"}, model).second.at(0);
  };
  const auto parameters = details(kOneLayer)["parameters"].get<int64_t>();
  for (const char* bits : {"8", "6", "4"}) {
    const std::string rounded = path(std::string("bits") + bits);
    expect(neuronmm("quantize " + kOneLayer + " -o " + rounded + " --bits " + bits), 0, {});
    const nlohmann::json found = details(rounded);
    EXPECT_EQ(found["dense_bytes"], 2 * parameters) << bits;
    EXPECT_LT(found["bytes"], 2 * parameters) << bits;
  }
}

TEST_F(ServeCommand, TheModelHasSeveralNames) {
  const auto [text, bodies] =
      serve_and_get("--served-model-name first --served-model-name other", {"/v1/models"});
  EXPECT_EQ(bodies[0]["data"][0]["id"], "first") << text;
  EXPECT_EQ(bodies[0]["data"][1]["id"], "other");
  EXPECT_EQ(bodies[0]["data"].size(), 2u);
  const std::vector<std::string> paths = {"/v1/models/gpt-4o", "/v1/models"};
  const auto [unused, one] = serve_and_get("", paths);
  EXPECT_EQ(one[0]["error"]["code"], "model_not_found");
  const auto [again, any] = serve_and_get("--any-model-name", paths);
  EXPECT_EQ(any[0]["id"], "gpt-4o");
  EXPECT_EQ(any[1]["data"].size(), 1u);
}

TEST_F(ServeCommand, TheStartSaysHowAnswersAreSampled) {
  const auto [text, bodies] = serve_and_get("", {"/v1/model"});
  EXPECT_NE(text.find("/v1 uses temperature 1 unless a request says otherwise, as OpenAI documents "
                      "it; the web page asks for temperature 0.7 and top_p 0.9"),
            std::string::npos)
      << text;
  EXPECT_EQ(bodies[0]["defaults"], nlohmann::json({{"temperature", 0.7}, {"top_p", 0.9}}));
}

TEST_F(ServeCommand, ThePageGetsWhatTheModelRecommends) {
  std::filesystem::copy(kOneLayer, folder_ / "model", std::filesystem::copy_options::recursive);
  write("model/generation_config.json", R"({"top_k": 20, "repetition_penalty": 1.1})");
  const auto [text, bodies] = serve_and_get("", {"/v1/model"}, path("model"));
  EXPECT_NE(text.find("generation_config.json unless a request says otherwise"), std::string::npos)
      << text;
  EXPECT_EQ(bodies[0]["defaults"],
            nlohmann::json({{"temperature", 1.0}, {"top_k", 20}, {"repetition_penalty", 1.1}}));
}

// A script that waits for the word may send its requests as soon as it reads it.
TEST_F(ServeCommand, ListensOnlyWhenEverythingThatCanFailIsReady) {
  const Outcome missing = neuronmm("serve " + path("nowhere") + " --port 0");
  expect(missing, 1, {"nowhere"});
  EXPECT_EQ(missing.output.find("listening"), std::string::npos) << missing.output;
  const Outcome small = neuronmm("serve " + kOneLayer + " --port 0 --kv-cache-memory 10");
  expect(small, 1, {"--kv-cache-memory"});
  EXPECT_EQ(small.output.find("listening"), std::string::npos) << small.output;
}

// The server has fewer descriptors than there are sockets, so it closes those that are idle.
TEST_F(ServeCommand, IdleSocketsDoNotUseUpTheDescriptors) {
  const StartedServer server = start_server("", kDemo, "ulimit -n 100; ");
  std::deque<serve::HttpClient> idle;
  for (int i = 0; i < 300; ++i) {
    idle.emplace_back(server.port);
    if (i % 2 == 0) idle.back().send("POST /v1/comp");
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(serve::HttpClient(server.port).get("/v1/models").status, 200);
  kill(server.process, SIGKILL);
}

// The shell starts the server, waits until it is ready, and sends the signal.
TEST_F(ServeCommand, SigtermAndSigintEndAnIdleServerWithExitCode0) {
  for (const char* signal : {"TERM", "INT"}) {
    const std::string log = path(signal);
    const Outcome outcome =
        run_shell("'" + program_path().string() + "' serve '" + kDemo + "' --port 0 >'" + log +
                  "' 2>&1 & server=$!; for i in $(seq 200); do grep -qs 'is ready' '" + log +
                  "' && break; sleep 0.05; done; kill -" + signal + " $server; wait $server");
    EXPECT_EQ(outcome.exit_code, 0) << read(log);
    const std::string text = read(log);
    EXPECT_NE(text.find("listening on http://127.0.0.1:"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace neuronmm::apps
