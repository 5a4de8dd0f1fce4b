#pragma once
// The position of a fine-tuning run: how far it has come and what it has measured so far. Training
// updates it, and TrainingFolder stores it as JSON in its tensor files, so that an interrupted run
// can be resumed.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace neuronmm::finetune {

// The summed loss of one epoch of one phase.
struct EpochLoss {
  int64_t phase = 0;
  double sum = 0.0;
  int64_t tokens = 0;

  double mean() const { return sum / static_cast<double>(tokens); }
};

// The mean loss on the validation text after `step` steps of a phase.
struct Validation {
  int64_t phase = 0, step = 0;
  double loss = 0.0;
};

// The error of one decoder layer before and after its refinement: the mean of
// TrainableModel::block_error over the tokens.
struct BlockError {
  double before = 0.0, after = 0.0;
};

// The position of a run. Each list has the entries of all phases, one after the other.
struct Position {
  // The current phase and the number of its steps that are done. In a phase of kBlocks a step is a
  // decoder layer.
  int64_t phase = 0, step = 0;
  // The number of steps of every phase that is done.
  std::vector<int64_t> steps = {};
  std::vector<EpochLoss> epochs = {};  // the last one may be unfinished
  std::vector<Validation> validations = {};
  std::vector<BlockError> blocks = {};
};

// Returns the validation of `phase` with the smallest loss, or the first of several equal ones.
std::optional<Validation> best_of(const std::vector<Validation>& validations, int64_t phase);

// Writes a position as JSON.
std::string to_text(const Position& position);
// Reads what to_text has written. `source` begins the message of an error.
Result<Position> parse_position(const std::string& text, const std::string& source);

}  // namespace neuronmm::finetune
