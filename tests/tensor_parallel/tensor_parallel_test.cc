// Tests that models on several processes compute what they compute on one. Every case runs
// model_worker under mpirun.

#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/run_program.h"
#include "parallel/several_processes.h"

namespace neuronmm::tensor_parallel {
namespace {

class SharedModels : public testing::TestWithParam<std::tuple<int, std::string, std::string>> {};

TEST_P(SharedModels, LayoutsAndLogitsAreThoseOfOneProcess) {
  if (const std::string why = parallel::why_no_mpirun(); !why.empty()) GTEST_SKIP() << why;
  const auto& [processes, link, values] = GetParam();
  const std::string worker = program_path().parent_path() / "model_worker";
  const apps::Outcome outcome = apps::run_shell(fmt::format(
      "{} {} {} {} 2>&1 </dev/null", parallel::mpirun(processes), worker, link, values));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Links, SharedModels,
                         testing::Values(std::tuple(2, "shared", "fp32"),
                                         std::tuple(2, "messages", "fp32"),
                                         std::tuple(3, "messages", "bf16"),
                                         std::tuple(4, "shared", "fp32"),
                                         std::tuple(4, "messages", "fp32")));

}  // namespace
}  // namespace neuronmm::tensor_parallel
