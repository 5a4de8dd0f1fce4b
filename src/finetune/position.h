#pragma once
// Where a fine-tuning stands, and what it has measured on the way there.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::finetune {

struct EpochLoss {
  int64_t phase = 0;
  double sum = 0.0;
  int64_t tokens = 0;

  double mean() const { return sum / static_cast<double>(tokens); }
};

// The mean loss on the validation text after so many steps of a phase.
struct Validation {
  int64_t phase = 0, step = 0;
  double loss = 0.0;
};

// Of one decoder layer, see TrainableModel::block_error: the mean over the tokens.
struct BlockError {
  double before = 0.0, after = 0.0;
};

// Where a run stands. The lists are of all phases, one after the other.
struct Position {
  int64_t phase = 0, step = 0;         // steps done of that phase, or decoder layers
  std::vector<int64_t> steps = {};     // of the phases that are done
  std::vector<EpochLoss> epochs = {};  // the last may be unfinished
  std::vector<Validation> validations = {};
  std::vector<BlockError> blocks = {};
};

// The smallest of a phase, the first of equal ones.
std::optional<Validation> best_of(const std::vector<Validation>& validations, int64_t phase);

std::string to_text(const Position& position);
// `source` begins the message.
Result<Position> parse_position(const std::string& text, const std::string& source);

}  // namespace neuronmm::finetune
