#pragma once
// Times several implementations of the same computation in turns. A slow phase of the machine then
// affects all of them, and each finds the caches filled by another. The benchmark programs use it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace neuronmm::bench {

// Statistics of the times of one implementation, in seconds.
struct Seconds {
  double minimum = 0, lower_quartile = 0, median = 0, upper_quartile = 0;
};

// Returns the statistics of a list of times.
inline Seconds statistics_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const size_t n = times.size();
  return {times[0], times[n / 4], times[n / 2], times[n * 3 / 4]};
}

// Returns how long `run` takes on the clock.
inline double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs each implementation once to warm up and then `repeats` timed turns. before(i) is called
// before every turn of runs[i].
inline std::vector<Seconds> take_turns(const std::vector<std::function<void()>>& runs, int repeats,
                                       const std::function<void(size_t)>& before) {
  std::vector<std::vector<double>> times(runs.size());
  for (int turn = 0; turn <= repeats; ++turn) {
    for (size_t i = 0; i < runs.size(); ++i) {
      before(i);
      const double seconds = seconds_of(runs[i]);
      if (turn > 0) times[i].push_back(seconds);
    }
  }
  std::vector<Seconds> statistics;
  for (std::vector<double>& times_of_run : times)
    statistics.push_back(statistics_of(std::move(times_of_run)));
  return statistics;
}

}  // namespace neuronmm::bench
