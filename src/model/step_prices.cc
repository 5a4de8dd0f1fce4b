#include "model/step_prices.h"

#include <algorithm>

namespace neuronmm::model {
namespace {

// The share of its weight that a step keeps with every later step. Assumed: the last twenty steps
// tell the speed at which the text grows, and more are needed to see what a row costs.
constexpr double kStepKept = 0.95;
// The smallest variance of the number of rows that tells what a row costs, in squared rows.
// Assumed.
constexpr double kLeastVariance = 0.25;
// The smallest share of a pass that a row takes. Assumed: times of a busy machine may show less.
constexpr double kLeastRowShare = 0.01;

}  // namespace

void StepPrices::record(int64_t rows, int64_t tokens, double model_seconds, double draft_seconds) {
  const auto x = static_cast<double>(rows);
  const auto add = [](double& sum, double value) { sum = kStepKept * sum + value; };
  add(steps_, 1.0);
  add(rows_, x);
  add(seconds_, model_seconds);
  add(rows_squared_, x * x);
  add(rows_seconds_, x * model_seconds);
  add(tokens_, static_cast<double>(tokens));
  add(all_seconds_, model_seconds + draft_seconds);
}

// Returns the slope of the line of least squares through the times of the steps over their rows. It
// lies between a small share of a pass and the mean time of a row.
double StepPrices::row_seconds() const {
  const double mean_rows = rows_ / steps_, mean_seconds = seconds_ / steps_;
  const double variance = rows_squared_ / steps_ - mean_rows * mean_rows;
  if (variance < kLeastVariance) return kFirstCheckPrice * mean_seconds;
  const double covariance = rows_seconds_ / steps_ - mean_rows * mean_seconds;
  const double most = mean_seconds / mean_rows;
  return std::clamp(covariance / variance, std::min(kLeastRowShare * mean_seconds, most), most);
}

DraftPrices StepPrices::prices(std::optional<double> proposal_seconds) const {
  const double assumed = proposal_seconds == 0.0 ? 0.0 : kFirstDraftPrice;
  if (steps_ == 0.0 || all_seconds_ <= 0.0) return {kFirstCheckPrice, assumed};
  const double tokens_per_second = tokens_ / all_seconds_;
  return {row_seconds() * tokens_per_second,
          proposal_seconds ? *proposal_seconds * tokens_per_second : assumed};
}

}  // namespace neuronmm::model
