#include "serve/load/arrivals.h"

#include <random>

namespace neuronmm::load {

std::vector<double> arrival_times(int64_t count, const ArrivalSettings& settings) {
  std::vector<double> times(static_cast<size_t>(count), 0.0);
  if (!settings.rate) return times;
  std::mt19937_64 random(settings.seed);
  std::gamma_distribution<double> wait(settings.burstiness,
                                       1.0 / (*settings.rate * settings.burstiness));
  for (size_t i = 1; i < times.size(); ++i) times[i] = times[i - 1] + wait(random);
  return times;
}

}  // namespace neuronmm::load
