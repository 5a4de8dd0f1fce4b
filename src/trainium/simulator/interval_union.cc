#include "trainium/simulator/interval_union.h"

#include <algorithm>

namespace neuronmm::simulator {

void IntervalUnion::add(double begin, double end) {
  begin = std::max(begin, forgotten_);
  if (end <= begin) return;
  if (!spans_.empty() && begin < spans_.back().begin) return insert(begin, end);
  if (spans_.empty() || begin > spans_.back().end) {
    spans_.push_back({begin, end});
    length_ += end - begin;
  } else if (end > spans_.back().end) {
    length_ += end - spans_.back().end;
    spans_.back().end = end;
  }
  if (spans_.size() < 2 * kSpans) return;
  forgotten_ = spans_[kSpans - 1].end;
  spans_.erase(spans_.begin(), spans_.begin() + kSpans);
}

// Joins the new span with all spans that it touches.
void IntervalUnion::insert(double begin, double end) {
  const auto first = std::lower_bound(spans_.begin(), spans_.end(), begin,
                                      [](const Span& span, double t) { return span.end < t; });
  auto last = first;
  Span joined{begin, end};
  for (; last != spans_.end() && last->begin <= end; ++last) {
    joined = {std::min(joined.begin, last->begin), std::max(joined.end, last->end)};
    length_ -= last->end - last->begin;
  }
  length_ += joined.end - joined.begin;
  if (first == last) {
    spans_.insert(first, joined);
  } else {
    *first = joined;
    spans_.erase(first + 1, last);
  }
}

}  // namespace neuronmm::simulator
