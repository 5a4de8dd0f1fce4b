#pragma once
// Shows how parallel loops divide their work, for any number of threads, without that many cores.
// The tests of tests/many_cores use it.

#include <cstdint>
#include <source_location>

namespace neuronmm {

// The work of a loop whose caller does not tell it.
inline constexpr int64_t kUnknownWork = -1;

// Where a loop begins, and how much it does, in multiply-adds on data in cache (cpu/tasks.h).
struct LoopFacts {
  std::source_location where;
  int64_t work = kUnknownWork;
};

class LoopRecorder {
 public:
  virtual ~LoopRecorder() = default;
  // A loop begins that has `count` iterations.
  virtual void begin_loop(int64_t count, const LoopFacts& facts) = 0;
  // Iteration i begins. `thread` is the thread that begins with it; in a real loop another thread
  // takes it if that one is late.
  virtual void begin_iteration(int64_t i, int thread) = 0;
  virtual void end_loop() = 0;
};

// While an object exists, all loops of the thread that made it run on that thread alone, one
// iteration after the other, and `recorder` is told of each. Loops within loops are not told.
class RecordLoops {
 public:
  explicit RecordLoops(LoopRecorder& recorder);
  ~RecordLoops();
  RecordLoops(const RecordLoops&) = delete;
  RecordLoops& operator=(const RecordLoops&) = delete;
};

namespace internal {
extern constinit thread_local LoopRecorder* loop_recorder;
}  // namespace internal

}  // namespace neuronmm
