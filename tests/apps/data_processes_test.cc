// The tests in this file run compress, quantize and fit on several processes. They write the same
// bytes as one process, even after a process was killed.

#include <string>

#include <gtest/gtest.h>

#include "launched_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::kDemo;
using neuronmm::apps::kOneLayer;
using neuronmm::apps::neuronmm;
using neuronmm::apps::read;
using neuronmm::apps::run_shell;
using neuronmm::apps::why_no_launch;
using neuronmm::parallel::mpirun;

// The text has four groups of sequences, so that three processes have unequal shares.
const std::string kText =
    " --calibration " + kOneLayer + "/calibration.txt --calibration-tokens 6400";

class DataProcesses : public ::neuronmm::apps::ProgramTest {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_launch(); !why.empty()) GTEST_SKIP() << why;
    ProgramTest::SetUp();
  }
  static std::string launcher(int processes) { return processes == 1 ? "" : mpirun(processes); }

  // Returns the output folder. It has the same name in each run, because the model card names it.
  std::string output_of(int processes, const std::string& command) const {
    const std::string folder = path(std::to_string(processes));
    fs::create_directories(folder);
    expect(neuronmm(command + " -o out --threads 1", "cd " + folder + " && " + launcher(processes)),
           0, {});
    return folder + "/out";
  }
  static void expect_same(const std::string& folder, const std::string& other) {
    size_t files = 0;
    for (const auto& file : fs::recursive_directory_iterator(folder)) {
      if (!file.is_regular_file()) continue;
      ++files;
      EXPECT_TRUE(read(file.path()) == read(other / fs::relative(file.path(), folder)))
          << file.path();
    }
    EXPECT_GE(files, 4u);
  }
  void expect_same_with(int processes, const std::string& command) {
    expect_same(output_of(1, command), output_of(processes, command));
  }
};

TEST_F(DataProcesses, CompressUvWritesTheSameBytes) {
  expect_same_with(
      3, "compress " + kOneLayer + kText + " --form uv --method whitened --ratio 0.3 --block 16");
}

// The output metric has two groups of sequences.
TEST_F(DataProcesses, CompressMixedWritesTheSameBytes) {
  expect_same_with(3, "compress " + kDemo + kText + " --form mixed --ratio 0.3");
}

// The text has two groups of sequences, so two of the four processes have none.
TEST_F(DataProcesses, CompressInOtherFormsWritesTheSameBytes) {
  for (const std::string form : {"pivoted", "narrow", "neurons"}) {
    SCOPED_TRACE(form);
    expect_same_with(4, "compress " + kOneLayer + " --calibration " + kOneLayer +
                            "/calibration.txt --calibration-tokens 4500 --form " + form +
                            " --method whitened --allocate predicted --ratio 0.3");
    fs::remove_all(path("1"));
    fs::remove_all(path("4"));
  }
}

// The form auto makes two models and measures both on the tokens that calibration does not use.
TEST_F(DataProcesses, CompressAutoWritesTheSameBytes) {
  expect_same_with(3, "compress " + kDemo + " --calibration " + kDemo +
                          "/calibration.txt --calibration-tokens 8192 --method whitened "
                          "--ratio 0.05");
  EXPECT_NE(read(path("1/out/config.json")).find("held-out tokens where"), std::string::npos);
}

TEST_F(DataProcesses, QuantizeWritesTheSameBytes) {
  expect_same_with(3, "quantize " + kDemo + kText + " --bits 4");
}

// The times that fit measures are only in its report, so its folders are the same.
TEST_F(DataProcesses, FitWritesTheSameBytes) {
  expect_same_with(2, "fit " + kDemo + " --calibration " + kDemo +
                          "/calibration.txt --calibration-tokens 800 --sensitivities known "
                          "--bytes 5M");
  expect_same(path("1") + "/known", path("2") + "/known");
}

// The second process is killed when the first layer is on disk. The next run has three processes.
TEST_F(DataProcesses, ARunGoesOnAfterAProcessWasKilled) {
  const std::string command =
      "compress " + kDemo + kText + " --form uv --method whitened --ratio 0.3 --block 16";
  const std::string whole = output_of(1, command);
  const std::string folder = path("3"), program = neuronmm::program_path().string();
  fs::create_directories(folder);
  const auto killed =
      run_shell("cd " + folder + "; { " + mpirun(2) + "'" + program + "' " + command +
                " -o out --threads 1 --link messages; } 2>&1 </dev/null & job=$!\n"
                "until ls out.partial/*/gram-00000* >/dev/null 2>&1 || ! kill -0 $job; do\n"
                "sleep 0.01; done\n"
                "launcher=$(pgrep mpirun -P $(pgrep timeout -P $job || echo $job))\n"
                "kill -KILL $(pgrep neuronmm -P $launcher | tail -1)\n"
                "wait $job; exit $?");
  EXPECT_NE(killed.exit_code, 0) << killed.output;
  EXPECT_FALSE(fs::exists(folder + "/out"));
  expect_same(whole, output_of(3, command));
}

TEST_F(DataProcesses, AnErrorIsPrintedOnce) {
  const auto outcome =
      neuronmm("compress " + path("none") + kText + " --ratio 0.3 -o " + path("x"), mpirun(2));
  expect(outcome, 1, {"config.json"});
  EXPECT_EQ(outcome.output.find("config.json"), outcome.output.rfind("config.json"));
}

}  // namespace
