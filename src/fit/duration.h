#pragma once
// Estimates how long a run of `fit` takes, before it begins with what takes minutes. fit.cc is the
// caller. The estimate counts floating-point operations and divides them by the speed with which
// the dense model has just read a prompt. Other work on the machine makes a run longer.

#include <cstdint>
#include <string>

#include "fit/seconds.h"
#include "io/model_config.h"

namespace neuronmm::fit {

// The work of a run that is still to be done.
struct WorkAhead {
  int64_t calibration_tokens = 0;  // 0 if their statistics are saved
  bool shapes = false;             // measure narrower MLPs
  bool rounding = false;           // measure what rounding costs
  bool writing = true;             // write and measure a model
};

// Returns the seconds that the work takes. `dense` are the times of the dense model, and `prompt`
// is the number of tokens of the prompt that they are of.
double seconds_of(const WorkAhead& work, const io::ModelConfig& config, const Seconds& dense,
                  int64_t prompt);

// Returns "less than a minute", "about 1 minute" or "about 11 minutes".
std::string duration_text(double seconds);

}  // namespace neuronmm::fit
