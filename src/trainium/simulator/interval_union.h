#pragma once
// How long at least one of many intervals lasts. They come nearly in the order of time, which is
// fast; one that comes late fills the gap that it lies in.

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

  // Apart from one another, in the order of time. The oldest are forgotten beyond this many, and
  // what begins before those that are left is cut: memory stays bounded in a run of any length.
  static constexpr size_t kSpans = 1 << 16;
  std::vector<Span> spans_;
  double forgotten_ = -1e18;  // what ends before it has been counted
  double length_ = 0;
};

}  // namespace neuronmm::simulator
