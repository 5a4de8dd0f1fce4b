#include "compress/reconstruction/settings.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/memory_limit.h"
#include "compress/reconstruction/layer_learning.h"
#include "cpu/amx.h"
#include "training/products.h"

namespace neuronmm::compress {
namespace {

// The passes of a text, as in the prototype (docs/measurements/quality.md, "Layer reconstruction").
constexpr int64_t kPasses = 3;
// Assumed: without AMX a pass takes about as long as three with it.
constexpr int64_t kPassesWithoutAmx = 1;

constexpr int64_t kMegabyte = 1'000'000;

int64_t tokens_of(const CalibrationSequences& text) {
  int64_t tokens = 0;
  for (const auto& sequence : text.sequences) tokens += std::ssize(sequence);
  return tokens;
}

// Returns the neurons of the largest layer, those of all its experts.
int64_t most_neurons(const io::ModelConfig& config) {
  int64_t most = 0;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool mixture = config.is_mixture(layer);
    most = std::max(
        most, mixture ? config.experts->count * config.experts->width : config.intermediate_size);
  }
  return most;
}

// Returns why layers of the model cannot be trained, or an empty text.
std::string obstacle(const io::ModelConfig& config, const TrainingMachine& machine) {
  const int64_t needed = layer_memory(config);
  if (needed <= machine.memory_left) return {};
  return fmt::format("a layer needs about {} MB of memory to learn, and {} MB are left",
                     needed / kMegabyte, machine.memory_left / kMegabyte);
}

std::string_view speed_text(TrainingSpeed speed) {
  switch (speed) {
    case TrainingSpeed::kAmx:
      return "this CPU has AMX";
    case TrainingSpeed::kBf16:
      return "this CPU has AVX512-BF16 and no AMX";
    case TrainingSpeed::kPlain:
      break;
  }
  return "this CPU has neither AMX nor AVX512-BF16, and would take more than twice the time";
}

ReconstructionPlan plan_auto(const CalibrationSequences& text, TrainingSpeed speed) {
  const int64_t tokens = tokens_of(text);
  if (tokens < kFewestTokens) {
    return {0, 0,
            fmt::format("{} tokens of text are too few, {} are needed", tokens, kFewestTokens)};
  }
  const std::string reason(speed_text(speed));
  if (speed == TrainingSpeed::kPlain) return {0, 0, reason};
  return {tokens, speed == TrainingSpeed::kAmx ? kPasses : kPassesWithoutAmx, reason};
}

}  // namespace

Result<Reconstruct> parse_reconstruct(std::string_view text) {
  if (text == "auto") return Reconstruct{Reconstruct::Mode::kAuto, 0};
  if (text == "off") return Reconstruct{Reconstruct::Mode::kOff, 0};
  int64_t tokens = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
  if (error == std::errc() && end == text.data() + text.size() && tokens > 0) {
    return Reconstruct{Reconstruct::Mode::kTokens, tokens};
  }
  return fail("expected auto, off or a number of tokens above 0, found {:?}", text);
}

std::string reconstruct_text(const Reconstruct& reconstruct) {
  switch (reconstruct.mode) {
    case Reconstruct::Mode::kAuto:
      return "auto";
    case Reconstruct::Mode::kOff:
      return "off";
    case Reconstruct::Mode::kTokens:
      break;
  }
  return std::to_string(reconstruct.tokens);
}

TrainingSpeed training_speed() {
  if (training::fastest_precision() == training::Precision::kFp32) return TrainingSpeed::kPlain;
  return cpu::amx_granted() ? TrainingSpeed::kAmx : TrainingSpeed::kBf16;
}

TrainingMachine TrainingMachine::this_one() {
  const auto limit = container_memory_limit();
  const int64_t most = std::min({machine_memory_bytes(), limit ? limit->bytes : INT64_MAX});
  return {training_speed(),
          std::min(mappable_bytes(), std::max<int64_t>(0, most - memory_use().anonymous))};
}

// A weight has its value, its gradient, two moments and the best state in fp32, and two packings in
// the dtype of products.
// A token has about so many numbers in fp32 in one step (estimated). Each of its experts has copies
// of its input and output, with packings and gradients.
int64_t layer_memory(const io::ModelConfig& config) {
  constexpr int64_t kNumberBytes = 4;
  const bool bf16 = training::fastest_precision() == training::Precision::kBf16;
  const int64_t weight_bytes = 5 * kNumberBytes + 2 * (bf16 ? 2 : 4);
  const int64_t width = config.hidden_size;
  const int64_t heads = (config.num_attention_heads + config.num_key_value_heads) * config.head_dim;
  const int64_t weights = width * (2 * heads + 3 * most_neurons(config));
  const int64_t copies = config.experts ? 6 * config.experts->active : 0;
  const int64_t numbers = (12 + copies) * width + 6 * heads + 6 * config.active_neurons();
  return weight_bytes * weights + kNumberBytes * numbers * most_tokens_at_once();
}

Status check_reconstruct(const Reconstruct& asked, const io::ModelConfig& config,
                         const TrainingMachine& machine) {
  if (asked.mode != Reconstruct::Mode::kTokens) return {};
  const std::string why_not = obstacle(config, machine);
  if (why_not.empty()) return {};
  return fail("reconstruct {}: {}; auto and off do without", asked.tokens, why_not);
}

ReconstructionPlan plan_reconstruction(const Reconstruct& asked, const CalibrationSequences* text,
                                       const io::ModelConfig& config,
                                       const TrainingMachine& machine) {
  if (asked.mode == Reconstruct::Mode::kOff) return {0, 0, "as asked"};
  const std::string why_not = obstacle(config, machine);
  if (!why_not.empty()) return {0, 0, why_not};
  if (text == nullptr) return {0, 0, "there is no calibration text to learn from"};
  if (asked.mode == Reconstruct::Mode::kAuto) return plan_auto(*text, machine.speed);
  return {std::min(asked.tokens, tokens_of(*text)), kPasses, "as asked"};
}

}  // namespace neuronmm::compress
