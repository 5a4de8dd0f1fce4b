#pragma once
// Limits the steps and the memory that rendering a template may take. A template comes with a model
// from a stranger, and one that would run forever or fill the memory is stopped with an error.

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace neuronmm::text::jinja {

// Assumed limits. Published templates take under 10,000 steps for a conversation, and copy a
// message about ten times.
struct Limits {
  // Expressions, statements and items that are evaluated. A byte of text counts as 1/64 of a step.
  int64_t steps = 20'000'000;
  // The bytes of all texts and lists that are ever made.
  size_t bytes = size_t{512} << 20;
  size_t output_bytes = size_t{64} << 20;  // The bytes of the result.
  // The nesting of expressions, statements and macros.
  int depth = 400;
};

// Counts the work of one rendering. Its functions fail once a limit is exceeded.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  const Limits& limits() const { return limits_; }

  Status spend(size_t steps) {
    steps_ += static_cast<int64_t>(steps);
    if (steps_ > limits_.steps) return fail("more than {} steps", limits_.steps);
    return {};
  }
  // Charges work that goes over the bytes of a text.
  Status scan(size_t bytes) { return spend(1 + bytes / 64); }

  // Charges memory. The caller asks before it takes the memory.
  Status allocate(size_t bytes) {
    if (bytes > remaining_bytes()) return fail("more than {} bytes of values", limits_.bytes);
    bytes_ += bytes;
    return {};
  }
  size_t remaining_bytes() const { return limits_.bytes - bytes_; }

  // Counts one level of nesting while the object lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) { ++budget_.depth_; }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Status check() const {
      if (budget_.depth_ > budget_.limits_.depth)
        return fail("nested deeper than {} levels", budget_.limits_.depth);
      return {};
    }

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  int64_t steps_ = 0;
  size_t bytes_ = 0;
  int depth_ = 0;
};

}  // namespace neuronmm::text::jinja
