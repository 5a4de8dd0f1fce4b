#pragma once
// Highway's choice of an instruction set, for as long as this lives.

#include <cstdint>

#include "hwy/targets.h"

namespace neuronmm::ops {

class InstructionSet {
 public:
  explicit InstructionSet(int64_t target) { choose(target); }
  ~InstructionSet() { choose(0); }
  InstructionSet(const InstructionSet&) = delete;
  InstructionSet& operator=(const InstructionSet&) = delete;

 private:
  static void choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace neuronmm::ops
