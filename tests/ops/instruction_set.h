#pragma once
// Forces an instruction set for tests of code that Highway compiles once per instruction set. The
// choice is global, so that tests that use it must not run in parallel threads.

#include <cstdint>

#include "hwy/targets.h"

namespace neuronmm::ops {

// Makes Highway dispatch to `target`, one of hwy::SupportedAndGeneratedTargets(), while it lives.
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
