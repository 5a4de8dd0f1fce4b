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

}  // namespace
}  // namespace neuronmm::apps
