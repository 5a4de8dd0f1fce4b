#pragma once
// Refuses budgets that no model can meet before the losses are measured, which takes minutes. The
// least size follows from the shapes of the model alone, and the least time from the times of its
// parts. What passes may still be refused after the losses are known, since the search need not
// consider the very smallest shapes. fit.cc is the caller.

#include "base/result.h"
#include "fit/costs.h"
#include "fit/fit.h"
#include "fit/model_bytes.h"

namespace neuronmm::fit {

// What no choice can go below. The request and the config must outlive the object.
class Reach {
 public:
  Reach(const FitRequest& request, const io::Checkpoint& checkpoint, const io::ModelConfig& config,
        bool simulated);

  // Returns the least bytes that any form and format has.
  double least_bytes() const;
  // Fails if the budget of bytes is below that, or if the model meets the whole budget as it is.
  Status check_bytes() const;
  // Fails if the model cannot be as fast as the budget asks.
  Status check_speed(const Costs& costs) const;

 private:
  double least_bytes(bool rounded) const;
  // Returns what the search predicts for the model as it is.
  double dense_bytes() const;
  Seconds dense_seconds(const Costs& costs) const;
  Seconds least_seconds(const Costs& costs) const;

  const FitRequest& request_;
  const io::ModelConfig& config_;
  ModelBytes bytes_;
  bool rounds_;  // whether the device multiplies rounded weights
};

}  // namespace neuronmm::fit
