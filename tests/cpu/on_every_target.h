#pragma once
// A test fixture that runs once per instruction set that this machine has and the library was
// compiled for. The tests of the CPU kernels use it.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cpu/backend.h"
#include "cpu/current_kernels.h"
#include "cpu/emulated_amx.h"
#include "cpu/kernels.h"
#include "hwy/targets.h"

namespace neuronmm::cpu {

enum class Amx { kNone, kOfTheCpu, kEmulated };

struct InstructionSet {
  int64_t target;    // Highway's target
  DotProducts dots;  // the dot products that the CPU has in this target
  Amx amx;

  std::string name() const {  // as in Kernels::target
    return std::string(hwy::TargetName(target)) + (dots == DotProducts::kNone ? "" : "+int8") +
           (dots == DotProducts::kInt8AndBf16 ? "+bf16" : "") +
           (amx == Amx::kNone       ? ""
            : amx == Amx::kOfTheCpu ? "+amx"
                                    : "+emulated_amx");
  }
  // Makes this the best instruction set for all later calls. Returns the best kernels, or the
  // emulated ones.
  const Kernels& force() const {
    hwy::SetSupportedTargetsForTest(target);
    current_choice = {dots, amx == Amx::kOfTheCpu};
    const Kernels& kernels = amx == Amx::kEmulated ? emulated_amx() : current_kernels();
    current_rounds_to_bf16 = kernels.dot_products == DotProducts::kInt8AndBf16;
    return kernels;
  }
  static void force_none() {
    hwy::SetSupportedTargetsForTest(0);
    current_choice = {};
    current_rounds_to_bf16 = false;
  }
};
inline void PrintTo(const InstructionSet& set, std::ostream* out) { *out << set.name(); }

class OnEveryTarget : public testing::TestWithParam<InstructionSet> {
 protected:
  ~OnEveryTarget() override {
    InstructionSet::force_none();
    set_num_threads(threads_before_);
  }
  const Kernels& kernels_ = GetParam().force();

 private:
  const int threads_before_ = num_threads();
};

// Returns each target once, and once more with each of the dot products that the CPU has there, and
// with AMX.
inline std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    for (const DotProducts dots :
         {DotProducts::kNone, DotProducts::kInt8, DotProducts::kInt8AndBf16}) {
      for (const Amx amx : {Amx::kNone, Amx::kOfTheCpu}) {
        const InstructionSet set = {target, dots, amx};
        const Kernels& kernels = set.force();
        if (kernels.dot_products == dots && kernels.amx == (amx == Amx::kOfTheCpu)) {
          sets.push_back(set);
        }
        InstructionSet::force_none();
      }
    }
  }
  return sets;
}

// Returns each target with emulated AMX, the best one first.
inline std::vector<InstructionSet> emulated_amx_sets() {
  std::vector<InstructionSet> sets;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    sets.push_back({target, DotProducts::kNone, Amx::kEmulated});
  }
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
#define NMM_WITH_EMULATED_AMX(fixture)                                                      \
  INSTANTIATE_TEST_SUITE_P(Emulated, fixture, testing::Values(emulated_amx_sets().front()), \
                           instruction_set_name)
