// This test checks which instruction set a backend runs on.

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cpu/kernels.h"
#include "cpu/on_every_target.h"

namespace neuronmm::cpu {
namespace {

using Dispatch = OnEveryTarget;
NMM_ON_EVERY_TARGET(Dispatch);

// The name is compiled into each table together with the kernels of its instruction set.
TEST_P(Dispatch, TakesTheForcedInstructionSet) {
  set_num_threads(3);
  EXPECT_EQ(make_backend(current_kernels())->name(),
            std::string("cpu (") + GetParam().name() + ", 3 threads)");
  set_num_threads(1);
  EXPECT_EQ(make_backend(current_kernels())->name(),
            std::string("cpu (") + GetParam().name() + ", 1 thread)");
}

TEST_P(Dispatch, ABackendKeepsItsInstructionSet) {
  const auto backend = make_backend(current_kernels());
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_THAT(backend->name(), testing::HasSubstr(GetParam().name()));
}

TEST(Kernels, AreSeparateFunctionsForEachInstructionSet) {
  // Some instruction sets differ only in their products of bf16, others only in those of bytes.
  std::vector<std::pair<const void*, const void*>> multiply;
  for (const InstructionSet& set : instruction_sets()) {
    const Kernels& kernels = set.force();
    multiply.emplace_back(reinterpret_cast<const void*>(kernels.multiply_floats),
                          reinterpret_cast<const void*>(kernels.multiply_int8));
  }
  InstructionSet::force_none();
  std::sort(multiply.begin(), multiply.end());
  EXPECT_EQ(std::adjacent_find(multiply.begin(), multiply.end()), multiply.end());
}

TEST(Kernels, DoNotRoundActivationsByDefault) {
  EXPECT_NE(best_kernels().dot_products, DotProducts::kInt8AndBf16);
}

TEST(Kernels, BestIsTheFirstSupported) {
  EXPECT_THAT(best_kernels().target,
              testing::StartsWith(hwy::TargetName(hwy::SupportedAndGeneratedTargets().front())));
}

}  // namespace
}  // namespace neuronmm::cpu
