// The tests in this file compute the output metric as `compress` and `fit` do, by starting another
// program.

#include "training/metric_program.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "io/safetensors.h"
#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::kOneLayer;
using neuronmm::apps::MetricCall;
using neuronmm::apps::run_metric_program;

class MetricProgram : public neuronmm::apps::ProgramTest {
 protected:
  void TearDown() override {
    neuronmm::set_interrupted(false);
    ProgramTest::TearDown();
  }
  MetricCall call(size_t sequences = 2) const {
    MetricCall call;
    call.model = kOneLayer;
    call.sequences.assign(sequences, {1, 2, 3, 4, 5, 6, 7, 8});
    call.out = path("metric.safetensors");
    call.threads = 1;
    return call;
  }
  void expect_failure(const neuronmm::Status& status, const std::string& words) const {
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find(words), std::string::npos) << status.error().message;
    EXPECT_FALSE(fs::exists(path("metric.safetensors")));
    EXPECT_FALSE(fs::exists(path("metric.safetensors.tokens")));
  }
  // Returns a shell script that stands for the program and runs `line`.
  fs::path script(const std::string& line) const {
    write("program", "#!/bin/sh\n" + line + "\n");
    fs::permissions(path("program"), fs::perms::owner_all);
    return path("program");
  }
  static fs::path trainer() { return neuronmm::program_path().parent_path() / "neuronmm-finetune"; }
};

TEST_F(MetricProgram, WritesTheMetric) {
  if (!fs::exists(trainer())) GTEST_SKIP() << "built without libtorch";
  const auto status = run_metric_program(call(), trainer());
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto file = neuronmm::io::SafetensorsFile::open_checked(path("metric.safetensors"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata().at("tokens"), "16");
  EXPECT_TRUE(file->tensors().contains("model.layers.0.mlp.metric_out"));
  EXPECT_FALSE(fs::exists(path("metric.safetensors.tokens")));
}

TEST_F(MetricProgram, ErrorsOfTheProgramAreReturned) {
  if (!fs::exists(trainer())) GTEST_SKIP() << "built without libtorch";
  MetricCall wrong = call();
  wrong.sequences[1][2] = 1 << 20;
  expect_failure(run_metric_program(wrong, trainer()), "sequence 1: expected tokens below");
  wrong = call();
  wrong.model = path("nothing");
  expect_failure(run_metric_program(wrong, trainer()), path("nothing"));
}

TEST_F(MetricProgram, AMissingOrBrokenProgramIsAnError) {
  // The folder of the tests has no such program.
  EXPECT_FALSE(neuronmm::apps::metric_program_available());
  expect_failure(run_metric_program(call()), "neuronmm-finetune is missing, because libtorch");
  write("program", "text");
  expect_failure(run_metric_program(call(), path("program")), "cannot be run");
  expect_failure(run_metric_program(call(), script("exit 3")), "exit code 3");
  expect_failure(run_metric_program(call(), script("kill -9 $$")), "ended by signal 9");
}

// run_metric_program() waits for the child, so this test also shows that the child ends.
TEST_F(MetricProgram, AnInterruptIsPassedOn) {
  const fs::path sleeper = script("trap 'exit 130' TERM; while :; do sleep 0.05; done");
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    neuronmm::set_interrupted(true);
  });
  const auto status = run_metric_program(call(), sleeper);
  later.join();
  expect_failure(status, "interrupted");
  EXPECT_EQ(status.error().kind, neuronmm::Error::Kind::kInterrupted);
}

}  // namespace
