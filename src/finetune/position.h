#pragma once
// The position of a fine-tuning run: how far it has come and what it has measured so far. Training
// updates it, and TrainingFolder stores it as JSON in its tensor file, so that an interrupted run
// can be resumed.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::finetune {

// The held-out loss after a short trial of a learning rate. It is infinite if training diverged.
struct RateTrial {
  double learning_rate = 0.0, loss = 0.0;
};

// The mean losses after `step` steps: on the held-out text, and on the training text since the
// measurement before, or 0 at the first one.
struct Measurement {
  int64_t step = 0;
  double held_out = 0.0, training = 0.0;
};

struct Position {
  int64_t step = 0;            // the number of steps that are done, with those that were skipped
  int64_t updates = 0;         // those that changed the model
  int64_t skipped = 0;         // those whose gradient was NaN or infinite
  int64_t skipped_in_row = 0;  // the last ones of them
  double learning_rate = 0.0;  // the largest one
  std::vector<RateTrial> trials = {};
  std::vector<Measurement> measurements = {};
  // The loss since the last measurement.
  double loss_sum = 0.0;
  int64_t loss_tokens = 0;
};

// Returns the measurement with the smallest held-out loss, the first of several equal ones. There
// is at least one.
const Measurement& best_of(const std::vector<Measurement>& measurements);

// Writes a position as JSON.
std::string to_text(const Position& position);
// Reads what to_text has written. `source` begins the message of an error.
Result<Position> parse_position(const std::string& text, const std::string& source);

}  // namespace neuronmm::finetune
