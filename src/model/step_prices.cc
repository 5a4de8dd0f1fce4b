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

void add(double& sum, double value) { sum = kStepKept * sum + value; }

}  // namespace

void PassTimes::record(int64_t rows, double seconds) {
  const auto x = static_cast<double>(rows);
  add(passes_, 1.0);
  add(rows_, x);
  add(seconds_, seconds);
  add(rows_squared_, x * x);
  add(rows_seconds_, x * seconds);
}

double PassTimes::row_seconds() const {
  const double mean_rows = rows_ / passes_, mean_seconds = seconds_ / passes_;
  const double variance = rows_squared_ / passes_ - mean_rows * mean_rows;
  if (variance < kLeastVariance) return kFirstRowShare * mean_seconds;
  const double covariance = rows_seconds_ / passes_ - mean_rows * mean_seconds;
  const double most = mean_seconds / mean_rows;
  return std::clamp(covariance / variance, std::min(kLeastRowShare * mean_seconds, most), most);
}

double PassTimes::seconds(int64_t rows) const {
  const double further = static_cast<double>(rows) - rows_ / passes_;
  return std::max(seconds_ / passes_ + row_seconds() * further, row_seconds());
}

// A clock that stands still measures nothing.
void StepPrices::record(const Pass& pass) {
  passes_.record(pass.rows, pass.model_seconds);
  const double plain_seconds = passes_.seconds(pass.sequences);
  if (plain_seconds <= 0.0) return;
  add(tokens_, static_cast<double>(pass.tokens));
  add(plain_tokens_, (pass.model_seconds + pass.draft_seconds) / plain_seconds *
                         static_cast<double>(pass.sequences));
}

// The speed of writing follows the number of sequences at once, and the gain by proposals slowly.
DraftPrices StepPrices::prices(int64_t sequences, std::optional<double> proposal_seconds) const {
  const double assumed = proposal_seconds == 0.0 ? 0.0 : kFirstDraftPrice;
  if (plain_tokens_ <= 0.0) return {kFirstCheckPrice, assumed};
  const double tokens_per_second =
      tokens_ / plain_tokens_ * static_cast<double>(sequences) / passes_.seconds(sequences);
  return {passes_.row_seconds() * tokens_per_second,
          proposal_seconds ? *proposal_seconds * tokens_per_second : assumed};
}

}  // namespace neuronmm::model
