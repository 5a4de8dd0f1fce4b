#pragma once
// A test fixture that runs once per instruction set that this machine has and the library was
// compiled for.

#include <memory>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "hwy/targets.h"

namespace neuronmm::cpu {

struct InstructionSet {
  int64_t target;  // of Highway
  bool byte_dot;   // with the instruction for dot products of bytes, if the CPU has it

  std::string name() const {  // as in Kernels::target
    return std::string(hwy::TargetName(target)) + (byte_dot ? "+dot" : "");
  }
};
inline void PrintTo(const InstructionSet& set, std::ostream* out) { *out << set.name(); }

class OnEveryTarget : public testing::TestWithParam<InstructionSet> {
 protected:
  OnEveryTarget() {
    hwy::SetSupportedTargetsForTest(GetParam().target);
    allow_byte_dot(GetParam().byte_dot);
  }
  ~OnEveryTarget() override {
    hwy::SetSupportedTargetsForTest(0);
    allow_byte_dot(true);
    set_num_threads(threads_before_);
  }

 private:
  const int threads_before_ = num_threads();
};

// Each target once, and once more with byte_dot where that makes a difference.
inline std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    allow_byte_dot(false);
    const Kernels& without = best_kernels();
    allow_byte_dot(true);
    const Kernels& with = best_kernels();
    sets.push_back({target, false});
    if (&with != &without) sets.push_back({target, true});
    hwy::SetSupportedTargetsForTest(0);
  }
  return sets;
}

inline std::string instruction_set_name(const testing::TestParamInfo<InstructionSet>& info) {
  return std::string(hwy::TargetName(info.param.target)) + (info.param.byte_dot ? "_dot" : "");
}

}  // namespace neuronmm::cpu

#define NMM_ON_EVERY_TARGET(fixture)                                               \
  INSTANTIATE_TEST_SUITE_P(Target, fixture, testing::ValuesIn(instruction_sets()), \
                           instruction_set_name)
