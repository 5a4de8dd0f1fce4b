#pragma once
// Shows how parallel loops divide their work, for any number of threads, without that many cores.
// The tests of tests/many_cores use it.

#include <cstdint>

namespace neuronmm {

// A place in the code. It stands for std::source_location, which clang 14 does not have.
class CodePlace {
 public:
  // Returns the place of the call, also where the call is a default argument.
  static constexpr CodePlace current(const char* file = __builtin_FILE(),
                                     const char* function = __builtin_FUNCTION(),
                                     uint32_t line = __builtin_LINE()) {
    return CodePlace(file, function, line);
  }
  constexpr CodePlace() = default;
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }
  constexpr uint32_t line() const { return line_; }

 private:
  constexpr CodePlace(const char* file, const char* function, uint32_t line)
      : file_(file), function_(function), line_(line) {}

  const char* file_ = "";
  const char* function_ = "";
  uint32_t line_ = 0;
};

// The work of a loop whose caller does not tell it.
inline constexpr int64_t kUnknownWork = -1;

// Where a loop begins, and how much it does, in multiply-adds on data in cache (cpu/tasks.h).
struct LoopFacts {
  CodePlace where;
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
