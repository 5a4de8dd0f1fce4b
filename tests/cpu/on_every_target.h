#pragma once
// A test fixture that runs once per instruction set that this machine has and the library was
// compiled for.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/kernels.h"
#include "hwy/targets.h"

namespace neuronmm::cpu {

struct InstructionSet {
  int64_t target;    // of Highway
  DotProducts dots;  // which the CPU has there

  std::string name() const {  // as in Kernels::target
    return std::string(hwy::TargetName(target)) + (dots == DotProducts::kNone ? "" : "+int8") +
           (dots == DotProducts::kInt8AndBf16 ? "+bf16" : "");
  }
};
inline void PrintTo(const InstructionSet& set, std::ostream* out) { *out << set.name(); }

class OnEveryTarget : public testing::TestWithParam<InstructionSet> {
 protected:
  OnEveryTarget() {
    hwy::SetSupportedTargetsForTest(GetParam().target);
    allow_dot_products(GetParam().dots);
  }
  ~OnEveryTarget() override {
    hwy::SetSupportedTargetsForTest(0);
    allow_dot_products(DotProducts::kInt8);
    set_num_threads(threads_before_);
  }

 private:
  const int threads_before_ = num_threads();
};

// Each target once, and once more with each of the dot products that it has there.
inline std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const DotProducts dots :
         {DotProducts::kNone, DotProducts::kInt8, DotProducts::kInt8AndBf16}) {
      allow_dot_products(dots);
      if (best_kernels().dot_products == dots) sets.push_back({target, dots});
    }
    hwy::SetSupportedTargetsForTest(0);
  }
  allow_dot_products(DotProducts::kInt8);
  return sets;
}

inline std::string instruction_set_name(const testing::TestParamInfo<InstructionSet>& info) {
  std::string name = info.param.name();
  std::replace(name.begin(), name.end(), '+', '_');
  return name;
}

}  // namespace neuronmm::cpu

#define NMM_ON_EVERY_TARGET(fixture)                                               \
  INSTANTIATE_TEST_SUITE_P(Target, fixture, testing::ValuesIn(instruction_sets()), \
                           instruction_set_name)
