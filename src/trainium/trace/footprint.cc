#include "trainium/trace/footprint.h"

#include <algorithm>

namespace neuronmm::trace {

namespace {

// The most separate runs of a row. Assumed; it bounds the cuts that one access adds to a grid.
constexpr size_t kMostRuns = 64;

// Joins adjacent and overlapping intervals.
void merge(std::vector<Interval>& intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const Interval& next : intervals) {
    if (kept > 0 && next.begin <= intervals[kept - 1].end) {
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, next.end);
    } else {
      intervals[kept++] = next;
    }
  }
  intervals.resize(kept);
}

// Returns the runs of one row: `bytes` at `begin`, repeated along the axes (strides in bytes,
// positive). The innermost axis comes first, so that contiguous axes lengthen one run and the
// others repeat the runs so far.
std::vector<Interval> runs(int64_t begin, int64_t bytes, std::vector<Axis> axes) {
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  std::vector<Interval> out = {{begin, begin + bytes}};
  for (const auto& [stride, count] : axes) {
    const int64_t reach = stride * (count - 1);
    const bool contiguous = out.size() == 1 && stride <= out[0].end - out[0].begin;
    if (contiguous || static_cast<int64_t>(out.size()) > static_cast<int64_t>(kMostRuns) / count) {
      out = {{out.front().begin, out.back().end + reach}};
      continue;
    }
    const std::vector<Interval> repeated = out;
    for (int64_t i = 1; i < count; ++i) {
      for (const Interval& run : repeated) {
        out.push_back({run.begin + i * stride, run.end + i * stride});
      }
    }
    merge(out);
  }
  return out;
}

// Splits the axes of an access in HBM into those that go from row to row and those inside a row.
Footprint in_rows(int64_t begin, int64_t bytes, int64_t row_bytes, const std::vector<Axis>& axes) {
  const int64_t column = begin % row_bytes;
  int64_t rows = 1, reach = 0;
  std::vector<Axis> inside;
  for (const Axis& axis : axes) {
    if (axis.stride % row_bytes == 0) {
      rows += axis.stride / row_bytes * (axis.count - 1);
    } else {
      reach += axis.stride * (axis.count - 1);
      inside.push_back(axis);
    }
  }
  Footprint out;
  out.rows = {begin / row_bytes, begin / row_bytes + rows};
  if (column + reach + bytes <= row_bytes) {
    out.columns = runs(column, bytes, std::move(inside));
  } else {  // The access continues in the following rows.
    out.rows.end += (column + reach + bytes - 1) / row_bytes;
    out.columns = {{0, row_bytes}};
  }
  return out;
}

}  // namespace

Footprint footprint(const TensorKind& kind, const TensorKind& root, int64_t base,
                    const Pattern& pattern, int64_t offset) {
  const int64_t bytes = kind.dtype.bytes;
  std::vector<Axis> axes;
  // An axis with a negative stride covers the same elements from the other end. Axes with stride 0
  // or one element add nothing.
  const size_t first = kind.on_chip() ? 1 : 0;
  int64_t start = offset;
  for (size_t i = 0; i < pattern.axes.size(); ++i) {
    const Axis& axis = pattern.axes[i];
    if (axis.stride < 0) start += axis.stride * (axis.count - 1);
    if (i < first || axis.stride == 0 || axis.count == 1) continue;
    axes.push_back({std::abs(axis.stride) * bytes, axis.count});
  }
  if (!kind.on_chip()) return in_rows(base + start * bytes, bytes, root.row_bytes(), axes);
  const int64_t row = kind.row_elements;
  const Axis& partitions = pattern.axes[0];
  const int64_t reach = std::abs(partitions.stride) / row * (partitions.count - 1);
  Footprint out;
  out.rows = {start / row, start / row + reach + 1};
  out.columns = runs(base + start % row * bytes, bytes, std::move(axes));
  return out;
}

}  // namespace neuronmm::trace
