#pragma once
// Limits the work and the memory that the grammar of one request may take. A schema or a pattern
// comes from a stranger, and a short one can describe an automaton of any size. Everything that
// compiles grammars (serve/schema, pattern.h, string_language.h) charges the budget of its request.
// Work is counted in steps and not in seconds, so that the same request always gets the same
// answer.
//
// A budget that is exceeded stays exceeded. Functions that can fail then return error(). Others
// stop early with a result that nobody uses: compile_schema() and its siblings check the budget
// last.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace neuronmm::grammar {

// The message for a pattern or grammar with more states or edges than the program can hold.
inline constexpr std::string_view kAutomatonTooLarge =
    "its automaton would be too large: use smaller counts, fewer alternatives or a simpler pattern";

struct BudgetLimits {
  // A step takes 10 to 20 ns. Measured: of MaskBench's 11,305 schemas the largest that is accepted
  // takes 83 million (docs/reference/json_schema.md).
  int64_t steps = 200'000'000;
  // The memory in use at one time, as far as it is counted. Measured like the steps: 90 MiB.
  int64_t bytes = int64_t{192} << 20;
};

class Budget {
 public:
  using IsCancelled = std::function<bool()>;

  // `is_cancelled` is asked about once per 65,536 steps. If it returns true, the work ends as if
  // the budget were exceeded.
  explicit Budget(const BudgetLimits& limits = {}, IsCancelled is_cancelled = {})
      : limits_(limits), is_cancelled_(std::move(is_cancelled)) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Charges work before or after it is done, in portions that take far less than a second. Returns
  // ok().
  bool spend(int64_t steps) {
    steps_ += steps;
    if (steps_ > next_check_) check();
    return ok();
  }
  // Charges the steps only if no call before had the same name.
  bool spend_once(std::string_view name, int64_t steps) {
    return spent_once_.emplace(name).second ? spend(steps) : ok();
  }
  // Charges memory, and the steps to fill it. The caller asks before it takes much memory at once.
  bool allocate(int64_t bytes) {
    bytes_ += bytes;
    most_bytes_ = std::max(most_bytes_, bytes_);
    if (bytes_ > limits_.bytes) check();
    return spend(1 + bytes / 32);
  }
  // Gives back memory that was charged.
  void release(int64_t bytes) { bytes_ -= bytes; }

  bool ok() const { return state_ == State::kWithin; }
  bool exceeded() const { return state_ == State::kExceeded; }
  bool cancelled() const { return state_ == State::kCancelled; }
  // Returns an error that says which limit was exceeded, and which part took most of the budget.
  // ok() must be false.
  Error error() const;
  int64_t steps() const { return steps_; }
  int64_t bytes() const { return bytes_; }
  int64_t most_bytes() const { return most_bytes_; }  // the largest value of bytes() so far

  // Gives back all memory that is charged while the object lives, except what it is told to keep.
  class Scratch {
   public:
    explicit Scratch(Budget& budget) : budget_(budget), before_(budget.bytes_) {}
    ~Scratch() { budget_.bytes_ = before_ + kept_; }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    void keep(int64_t bytes) { kept_ += bytes; }

   private:
    Budget& budget_;
    const int64_t before_;
    int64_t kept_ = 0;
  };

  // A part of the request, such as a pattern or a schema within the schema. While the object lives,
  // all charges belong to this part, except those that belong to parts within it.
  class Part {
   public:
    // `name` is called at most a few times, while the object lives.
    using Name = std::function<std::string()>;
    Part(Budget& budget, Name name);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    friend class Budget;
    double own_share() const;

    Budget& budget_;
    const Name name_;
    Part* const outer_;
    const double begin_;
    double inner_ = 0.0;  // the shares of the parts within
  };

 private:
  enum class State { kWithin, kExceeded, kCancelled };

  void check();
  // Returns the used share of the budget: 1 if the steps or the bytes are used up, or half of both.
  double share() const {
    return static_cast<double>(steps_) / static_cast<double>(limits_.steps) +
           static_cast<double>(bytes_) / static_cast<double>(limits_.bytes);
  }
  void keep_if_largest(const Part& part, double share);

  const BudgetLimits limits_;
  const IsCancelled is_cancelled_;
  State state_ = State::kWithin;
  bool exceeds_bytes_ = false;
  int64_t steps_ = 0, bytes_ = 0, most_bytes_ = 0, next_check_ = 0;
  std::set<std::string, std::less<>> spent_once_;
  Part* innermost_ = nullptr;
  std::string largest_name_;         // the part that took the largest share so far
  double largest_share_ = 1.0 / 64;  // smaller parts are not remembered
};

}  // namespace neuronmm::grammar
