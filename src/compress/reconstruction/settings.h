#pragma once
// What the user asks of layer reconstruction, and what follows from it for a model and a text.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/option_names.h"
#include "base/result.h"
#include "compress/calibration/calibration_text.h"
#include "io/model_config.h"

namespace neuronmm::compress {

// kTokens: layers learn from at most `tokens` tokens of the calibration text. kAuto: they learn
// from all of it, where that pays (plan_reconstruction).
struct Reconstruct {
  enum class Mode { kAuto, kOff, kTokens };
  Mode mode = Mode::kOff;
  int64_t tokens = 0;

  bool operator==(const Reconstruct&) const = default;
};
// Reads "auto", "off" or a number of tokens. The error lists them.
Result<Reconstruct> parse_reconstruct(std::string_view text);
std::string reconstruct_text(const Reconstruct& reconstruct);

// The kinds of CPUs, by the speed of training. kPlain: bf16 is multiplied no faster than fp32.
enum class TrainingSpeed { kPlain, kBf16, kAmx };
TrainingSpeed training_speed();

// kAuto trains from this many tokens of text on (docs/measurements/quality.md).
inline constexpr int64_t kFewestTokens = 16 * 1024;

// What is done.
struct ReconstructionPlan {
  int64_t tokens = 0;  // at most; 0: nothing is done
  int64_t passes = 0;  // over the text, at most
  std::string reason;  // why it is so, for a message
};
// What the machine can do.
struct TrainingMachine {
  TrainingSpeed speed = TrainingSpeed::kPlain;
  int64_t memory_left = 0;  // bytes that this process may still use

  static TrainingMachine this_one();
};
// Returns about how many bytes the training of one layer takes, without the hidden states.
int64_t layer_memory(const io::ModelConfig& config);
// Fails if a number of tokens is asked for and the memory of the machine does not suffice for a
// layer. The message says what would do.
Status check_reconstruct(const Reconstruct& asked, const io::ModelConfig& config,
                         const TrainingMachine& machine);
// Decides by the text, the model and the machine. The text may be null.
ReconstructionPlan plan_reconstruction(const Reconstruct& asked, const CalibrationSequences* text,
                                       const io::ModelConfig& config,
                                       const TrainingMachine& machine);

}  // namespace neuronmm::compress
