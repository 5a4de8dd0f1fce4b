#pragma once
// Measures the total length of the union of many intervals, for example the time when at least one
// transfer moves data. Intervals that arrive in the order of time are fast. An interval that
// arrives late fills the gaps that it covers.

#include <cstddef>
#include <vector>

namespace neuronmm::simulator {

class IntervalUnion {
 public:
  void add(double begin, double end);
  double length() const { return length_; }

 private:
  struct Span {
    double begin, end;
  };
  void insert(double begin, double end);

  // Disjoint intervals in the order of time. Beyond twice this many, the oldest are forgotten, and
  // later additions are cut to the time after them. Memory therefore stays bounded in a run of any
  // length.
  static constexpr size_t kSpans = 1 << 16;
  std::vector<Span> spans_;
  double forgotten_ = -1e18;  // Time before it has been counted.
  double length_ = 0;
};

}  // namespace neuronmm::simulator
