// The tests in this file run `neuronmm serve` as a user does, from its start to its end.

#include <deque>
#include <filesystem>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <signal.h>

#include "run_program.h"
#include "serve/http/http_client.h"

namespace neuronmm::apps {
namespace {

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
    const int port = std::atoi(text.c_str() + text.find_last_of(':', text.find('\n')) + 1);
    return {std::atoi(started.output.c_str()), port, text};
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

// The model is missing, so the server ends even if it accepts the origin.
TEST_F(ServeCommand, TheHelpShowsTheDefaults) {
  const Outcome help = neuronmm("serve --help-all");
  for (const char* flag :
       {"--host", "--port", "--max-num-seqs", "--max-queued-tokens", "--max-queued-requests",
        "--prefill-chunk", "--shutdown-timeout", "--sse-ping-interval", "--metrics-prefix"}) {
    const size_t begin = help.output.find(std::string("\n  ") + flag + " ");
    ASSERT_NE(begin, std::string::npos) << flag << help.output;
    const size_t end = help.output.find("\n  -", begin + 1);
    EXPECT_NE(help.output.substr(begin, end - begin).find("(default "), std::string::npos) << flag;
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
  EXPECT_NE(limited_by_memory.find("--kv-cache-memory 655360: the context is 256 tokens, not 512"),
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
         {"--kv-cache-memory: expected at least 262144 bytes, which 128 tokens take, found 1000"});
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
