#pragma once
// Measures how busy each track of a timeline is over time, for the charts of a report. The kernel's
// length is unknown until its end, so the bins grow: when a time lies beyond the last allowed bin,
// pairs of bins merge into one.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace neuronmm::simulator {

class Utilization {
 public:
  static constexpr size_t kMostBins = 1024;  // Assumed: a chart shows no more.

  // Adds work of a track from `begin` to `end`, in ns. Work of weight 2 counts twice.
  void add(int track, double begin, double end, double weight = 1) {
    if (!(end > begin) || begin < 0) return;
    while (end > bin_ns_ * static_cast<double>(kMostBins)) merge();
    if (busy_.size() <= static_cast<size_t>(track)) busy_.resize(static_cast<size_t>(track) + 1);
    std::vector<double>& bins = busy_[static_cast<size_t>(track)];
    const auto last = std::min(kMostBins - 1, static_cast<size_t>(end / bin_ns_));
    if (bins.size() <= last) bins.resize(last + 1);
    for (size_t bin = static_cast<size_t>(begin / bin_ns_); bin <= last; ++bin) {
      const double from = static_cast<double>(bin) * bin_ns_;
      bins[bin] += weight * std::max(0.0, std::min(end, from + bin_ns_) - std::max(begin, from));
    }
  }

  double bin_ns() const { return bin_ns_; }
  // Returns the share of the bin's time that the track is busy. The share exceeds 1 where work of
  // the track overlaps, and is 0 for bins that the track does not have.
  double share(int track, size_t bin) const {
    const auto t = static_cast<size_t>(track);
    return t < busy_.size() && bin < busy_[t].size() ? busy_[t][bin] / bin_ns_ : 0.0;
  }

 private:
  void merge() {
    bin_ns_ *= 2;
    for (std::vector<double>& bins : busy_) {
      const size_t merged = (bins.size() + 1) / 2;
      for (size_t i = 0; i < merged; ++i) {
        bins[i] = bins[2 * i] + (2 * i + 1 < bins.size() ? bins[2 * i + 1] : 0.0);
      }
      bins.resize(merged);
    }
  }

  double bin_ns_ = 1.0;
  std::vector<std::vector<double>> busy_;  // Busy time of each bin in ns, by track.
};

}  // namespace neuronmm::simulator
