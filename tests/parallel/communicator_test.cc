// This test runs communicator_worker under mpirun and checks what several processes get from one
// another, over both links.

#include "parallel/communicator.h"

#include <chrono>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/run_program.h"
#include "parallel/connect.h"
#include "parallel/several_processes.h"

namespace neuronmm::parallel {
namespace {

using apps::Outcome;

Outcome run(int processes, const std::string& arguments) {
  const std::string worker = program_path().parent_path() / "communicator_worker";
  return apps::run_shell(mpirun(processes) + worker + " " + arguments + " 2>&1 </dev/null");
}

class SeveralProcesses : public testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_mpirun(); !why.empty()) GTEST_SKIP() << why;
  }
  static Outcome run_case(const std::string& mode) {
    const auto& [processes, link] = GetParam();
    return run(processes, link + " " + mode);
  }
  static int processes() { return std::get<0>(GetParam()); }
};

TEST_P(SeveralProcesses, SumsMatchFp64AndHaveTheSameBitsEverywhere) {
  const Outcome outcome = run_case("sums");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(SeveralProcesses, BytesArriveWholeAndInOrder) {
  const Outcome outcome = run_case("bytes");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(SeveralProcesses, AWaitingProcessUsesLittleProcessorTime) {
  const Outcome outcome = run_case("idle");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(SeveralProcesses, DisagreementsAreReportedWithBothValues) {
  const Outcome outcome = run_case("disagree");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_P(SeveralProcesses, AStallOfTwoSecondsIsSurvived) {
  const Outcome outcome = run_case("stall 20");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// The first to notice ends the run: mpirun, or one of the other processes.
TEST_P(SeveralProcesses, AKilledProcessEndsAllOthers) {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = run_case("die");
  EXPECT_NE(outcome.exit_code, 0) << outcome.output;
  const std::string ours = fmt::format("process {} of {}", processes() - 1, processes());
  const std::string of_mpirun = fmt::format("rank {} ", processes() - 1);
  EXPECT_TRUE(outcome.output.find(ours) != std::string::npos ||
              outcome.output.find(of_mpirun) != std::string::npos)
      << outcome.output;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_P(SeveralProcesses, AProcessThatHangsIsNamed) {
  const Outcome outcome = run_case("hang 2");
  EXPECT_NE(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(
      outcome.output.find(fmt::format("LOST: process {} of {} on ", processes() - 1, processes())),
      std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find("no sign of life for 2 s"), std::string::npos) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Links, SeveralProcesses,
                         testing::Combine(testing::Values(2, 3, 4),
                                          testing::Values("shared", "messages")),
                         [](const auto& param) {
                           return fmt::format("{}{}", std::get<1>(param.param),
                                              std::get<0>(param.param));
                         });

TEST(Communicator, ASingleProcessKeepsItsOwnValues) {
  const auto single = make_single();
  std::vector<float> values = {1.5f, -2.0f};
  single->sum(std::span<float>(values), Wire::kBF16);
  EXPECT_EQ(values, (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(single->traffic().bytes_sent, 0);
  EXPECT_TRUE(single->is_first());
  EXPECT_TRUE(single->is_one_host());
}

TEST(Communicator, SharesCoverEverythingOnce) {
  for (int processes = 1; processes <= 7; ++processes) {
    for (int64_t count = 0; count <= 30; ++count) {
      int64_t end = 0;
      for (int i = 0; i < processes; ++i) {
        const Share share = share_of(count, i, processes);
        EXPECT_EQ(share.first, end);
        EXPECT_TRUE(share.count == count / processes || share.count == count / processes + 1);
        end = share.end();
      }
      EXPECT_EQ(end, count);
    }
  }
}

TEST(Communicator, LaunchedProcessesComeFromTheLaunchersVariables) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    setenv(name, "3", 1);
    EXPECT_EQ(launched_processes(), 3) << name;
    setenv(name, "nonsense", 1);
    EXPECT_EQ(launched_processes(), 1) << name;
    unsetenv(name);
  }
  setenv("SLURM_NTASKS", "4", 1);
  EXPECT_EQ(launched_processes(), 1) << "a batch script of several tasks is one process";
  setenv("PMIX_RANK", "0", 1);
  EXPECT_EQ(launched_processes(), 4);
  unsetenv("PMIX_RANK");
  unsetenv("SLURM_NTASKS");
}

}  // namespace
}  // namespace neuronmm::parallel
