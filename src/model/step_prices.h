#pragma once
// Measures the steps of an engine that decodes with a draft, and says what a proposal costs. Prices
// are in tokens that could be written in the same time, so a proposal pays if its chance to be used
// is larger than its price.

#include <cstdint>
#include <optional>

#include "model/draft.h"

namespace neuronmm::model {

class StepPrices {
 public:
  // Records a pass of the model that computed `rows` rows and made `tokens` tokens. The draft took
  // `draft_seconds` before it. Passes that also read prompts are left out by the caller.
  void record(int64_t rows, int64_t tokens, double model_seconds, double draft_seconds);
  // Returns the prices if the draft takes `proposal_seconds` for a proposal. Without this time, or
  // before the first step was recorded, the prices are those assumed below.
  DraftPrices prices(std::optional<double> proposal_seconds) const;

  // Assumed: a 4-bit draft of a bf16 model takes a third of the model's time, and a row on a CPU
  // with wide registers a thirtieth of the time of a pass over one row.
  static constexpr double kFirstDraftPrice = 0.33, kFirstCheckPrice = 0.03;

 private:
  double row_seconds() const;

  // Sums in which each step counts less the older it is.
  double steps_ = 0.0, rows_ = 0.0, seconds_ = 0.0, rows_squared_ = 0.0, rows_seconds_ = 0.0;
  double tokens_ = 0.0, all_seconds_ = 0.0;
};

}  // namespace neuronmm::model
