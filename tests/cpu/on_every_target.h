#pragma once
// A test fixture that runs once per instruction set that this machine has and the library was
// compiled for.

#include <memory>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "hwy/targets.h"

namespace neuronmm::cpu {

class OnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  OnEveryTarget() { hwy::SetSupportedTargetsForTest(GetParam()); }
  ~OnEveryTarget() override {
    hwy::SetSupportedTargetsForTest(0);
    set_num_threads(threads_before_);
  }

 private:
  const int threads_before_ = num_threads();
};

inline std::string target_name(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace neuronmm::cpu

#define NMM_ON_EVERY_TARGET(fixture)        \
  INSTANTIATE_TEST_SUITE_P(Target, fixture, \
                           testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), target_name)
