// `neuronmm serve` from its start to its end, as a process.

#include "run_program.h"

namespace neuronmm::apps {
namespace {

using ServeCommand = ProgramTest;

TEST_F(ServeCommand, WhatCannotBeServedIsToldAndEndsIt) {
  expect(neuronmm("serve '" + path("nothing") + "' --port 0"), 1, {"neuronmm serve:", "nothing"});
  expect(neuronmm("serve '" + kDemo + "' --port 0 --tls-cert '" + write("cert", "no PEM") +
                  "' --tls-key '" + path("key") + "'"),
         1, {"cert", "PEM"});
  expect(neuronmm("serve '" + kDemo + "' --port 0 --access-log '" + path("no/log") + "'"), 1,
         {"no/log"});
  expect(neuronmm("serve '" + kDemo + "' --port 70000"), 2, {"--port"});
  expect(neuronmm("serve '" + kDemo + "' --metrics-prefix 'a b'"), 2, {"--metrics-prefix"});
  expect(neuronmm("serve '" + kDemo + "' --tls-key key"), 2, {"--tls-cert"});
  for (const char* origin : {"foo", "https://a.example/", "://a", "https://"}) {
    expect(neuronmm("serve '" + kDemo + "' --cors-origin " + origin), 2,
           {"--cors-origin", "origin as"});
  }
  expect(neuronmm("serve '" + kDemo + "' --port 0 --kv-cache-memory 1000"), 1,
         {"--kv-cache-memory", "128 positions", "1000"});
}

// A terminal would be asked for the password, and a server has none.
TEST_F(ServeCommand, AnEncryptedKeyIsRefused) {
  const std::string key = path("key.pem"), certificate = path("cert.pem");
  const Outcome made =
      outcome_of("openssl req -x509 -newkey rsa:2048 -passout pass:secret -subj /CN=a -keyout '" +
                 key + "' -out '" + certificate + "' 2>&1");
  if (made.exit_code != 0) GTEST_SKIP() << "no openssl";
  expect(neuronmm("serve '" + kDemo + "' --port 0 --tls-cert '" + certificate + "' --tls-key '" +
                  key + "'"),
         1, {"key.pem", "encrypted"});
}

// The shell starts it, waits for the model, and sends the signal.
TEST_F(ServeCommand, EitherSignalEndsAnIdleServerInPeace) {
  for (const char* signal : {"TERM", "INT"}) {
    const std::string log = path(signal);
    const Outcome outcome =
        outcome_of("'" + program_path().string() + "' serve '" + kDemo + "' --port 0 >'" + log +
                   "' 2>&1 & server=$!; for i in $(seq 200); do grep -q 'is ready' '" + log +
                   "' && break; sleep 0.05; done; kill -" + signal + " $server; wait $server");
    EXPECT_EQ(outcome.exit_code, 0) << read(log);
    const std::string text = read(log);
    EXPECT_TRUE(text.starts_with("listening on http://127.0.0.1:")) << text;
  }
}

TEST_F(ServeCommand, TellsWhereAnAnswerHasLessRoom) {
  const std::string log = path("log");
  outcome_of("'" + program_path().string() + "' serve '" + kDemo +
             "' --port 0 --context-length 100000 --kv-cache-memory 300K >'" + log +
             "' 2>&1 & server=$!; for i in $(seq 200); do grep -q 'is ready' '" + log +
             "' && break; sleep 0.05; done; kill $server; wait $server");
  const std::string text = read(log);
  EXPECT_NE(text.find("--context-length 100000: the model has"), std::string::npos) << text;
  EXPECT_NE(text.find("--kv-cache-memory 307200: it has room for 128 tokens"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace neuronmm::apps
