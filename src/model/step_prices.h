#pragma once
// Measures the steps of an engine that decodes with a draft, and says what a proposal costs. Prices
// are in tokens that could be written in the same time, so a proposal pays if its chance to be used
// is larger than its price.

#include <cstdint>
#include <optional>

#include "model/draft.h"

namespace neuronmm::model {

// How long a pass of a model takes for a number of rows: a line of least squares through the passes
// that were recorded, of which each counts less the older it is.
class PassTimes {
 public:
  void record(int64_t rows, double seconds);
  bool empty() const { return passes_ == 0.0; }
  // Returns the slope of the line. It lies between a small share of a pass and the mean time of a
  // row. If all passes had about as many rows, it is assumed. There must be a pass.
  double row_seconds() const;
  // Returns the time of a pass of so many rows, at least that of one further row.
  double seconds(int64_t rows) const;

  // Assumed: a row on a CPU with wide registers takes a thirtieth of the time of a pass over one.
  static constexpr double kFirstRowShare = 0.03;

 private:
  double passes_ = 0.0, rows_ = 0.0, seconds_ = 0.0, rows_squared_ = 0.0, rows_seconds_ = 0.0;
};

class StepPrices {
 public:
  // A pass of the model over the rows of some sequences.
  struct Pass {
    int64_t rows, sequences, tokens;      // it made `tokens` tokens
    double model_seconds, draft_seconds;  // the draft worked before the model
  };
  // Records a pass. Those that also read prompts are left out by the caller.
  void record(const Pass& pass);
  // Returns the prices for so many sequences if the draft takes `proposal_seconds` for a proposal.
  // Without this time, or before the first step was recorded, the prices are those assumed below.
  DraftPrices prices(int64_t sequences, std::optional<double> proposal_seconds) const;

  // Assumed: a 4-bit draft of a bf16 model takes a third of the model's time.
  static constexpr double kFirstDraftPrice = 0.33, kFirstCheckPrice = PassTimes::kFirstRowShare;

 private:
  PassTimes passes_;
  // The tokens of the steps, and those that steps without proposals would have made in their time.
  double tokens_ = 0.0, plain_tokens_ = 0.0;
};

}  // namespace neuronmm::model
