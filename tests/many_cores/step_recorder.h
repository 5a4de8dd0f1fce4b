#pragma once
// Records into how many tasks each parallel loop of a forward pass is divided, and what the tasks
// of each thread read and compute. The loops are those of the CPU backend, and num_threads() may be
// any number. Only the kernels are replaced: they count their operands instead of computing.

#include <cstdint>
#include <string>
#include <vector>

#include "base/loop_recorder.h"
#include "cpu/kernels.h"

namespace neuronmm::many_cores {

// The work of the tasks that a thread begins with.
struct ThreadLoad {
  int64_t tasks = 0;
  int64_t weight_bytes = 0;  // of packed weights
  int64_t kv_bytes = 0;      // of keys and values
  int64_t multiply_adds = 0;
};

// A parallel loop.
struct Step {
  std::string function;  // the function that has the loop
  std::string weights;   // the shapes K x N of its weights
  int64_t tasks = 0;
  int64_t work = kUnknownWork;  // what the loop's author says, in multiply-adds
  // The number of pieces that no task can be smaller than: panels of a weight for 16 rows, ranges
  // of positions for one block of query rows, or rows. 0 if the kernels did not tell.
  int64_t pieces = 0;
  std::vector<ThreadLoad> threads;

  // Returns how many tasks the work allows, if a task should be worth starting a loop
  // (cpu::kSerialWork): at most one per piece.
  int64_t allowed_tasks() const;
  // Returns what the largest load of a thread, in multiply-adds or else in tasks, is of the mean.
  double imbalance() const;
  ThreadLoad largest() const;  // the maximum of each field
};

class StepRecorder : public LoopRecorder {
 public:
  StepRecorder();
  ~StepRecorder() override;

  void begin_loop(int64_t count, const LoopFacts& facts) override;
  void begin_iteration(int64_t i, int thread) override;
  void end_loop() override;

  const std::vector<Step>& steps() const { return steps_; }

 private:
  friend struct CountingKernels;
  // Pieces that kernels were called for in the present loop.
  struct Pieces {
    int64_t products = 0, pairs = 0, ranges = 0, packed = 0, rows = 0;
  };

  bool in_step_ = false;  // in a loop with iterations
  std::vector<Step> steps_;
  Pieces pieces_;
  ThreadLoad* load_ = nullptr;  // of the present iteration's thread
};

// Returns the kernels of this CPU with functions that report to the StepRecorder that exists.
const cpu::Kernels& counting_kernels();

}  // namespace neuronmm::many_cores
