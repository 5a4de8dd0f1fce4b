#include "fit/duration.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "compress/calibration/calibration_text.h"
#include "fit/model_latency.h"
#include "fit/part.h"
#include "fit/rounding_losses.h"

namespace neuronmm::fit {
namespace {

// How much slower work is than the products of a prompt, per operation. Measured on
// Qwen2.5-Coder-0.5B and two cores of a Zen 3. Gram matrices are sums in fp64. Rounding by Gram
// matrices takes several sweeps over the columns.
constexpr double kGramCost = 2.0, kRoundingCost = 10.0, kMeasuredRoundingCost = 3.0;
// The runs that time a written model. Assumed: fit.cc times at least as many.
constexpr double kTimedRuns = 5.0;
// Losses of shapes and the output metric: passes of the calibration text through the model.
// Assumed.
constexpr double kShapePasses = 6.0;

// Operations of the model, in multiplications and additions per token.
struct Operations {
  double layers = 0.0, head = 0.0;
  double grams = 0.0;     // of one token
  double rounding = 0.0;  // of the whole model

  explicit Operations(const io::ModelConfig& config) {
    const auto hidden = static_cast<double>(config.hidden_size);
    const auto inner = static_cast<double>(config.intermediate_size);
    const auto queries = static_cast<double>(config.num_attention_heads * config.head_dim);
    const auto keys = static_cast<double>(config.num_key_value_heads * config.head_dim);
    const auto count = static_cast<double>(config.num_hidden_layers);
    head = 2.0 * static_cast<double>(config.vocab_size) * hidden;
    layers = count * 2.0 * hidden * (2.0 * (queries + keys) + 3.0 * inner);
    grams = count * (inner * inner + 3.0 * hidden * hidden + queries * queries);
    // A row of n columns takes n * n operations for each sweep.
    rounding = count * (hidden * hidden * (queries + 2.0 * keys + 2.0 * inner) +
                        hidden * (queries * queries + inner * inner)) +
               static_cast<double>(config.vocab_size) * hidden * hidden;
  }
};

}  // namespace

double seconds_of(const WorkAhead& work, const io::ModelConfig& config, const Seconds& dense,
                  int64_t prompt) {
  const Operations operations(config);
  const double per_operation =
      dense.prefill / (static_cast<double>(std::max<int64_t>(1, prompt)) * operations.layers);
  const auto tokens = static_cast<double>(work.calibration_tokens);
  double sum = tokens * (operations.layers + kGramCost * operations.grams);
  if (work.shapes) sum += kShapePasses * tokens * operations.layers;
  if (work.rounding) {
    const double parts = static_cast<double>(config.num_hidden_layers * int64_t{kParts} + 1);
    const double probe = static_cast<double>(kProbeTokens);
    sum += kMeasuredRoundingCost * operations.rounding;
    sum += parts * probe *
           (operations.layers / 2.0 + operations.head / static_cast<double>(kProbeStride));
    sum += 2.0 * probe * (operations.layers + operations.head);
  }
  if (work.writing) {
    sum += kRoundingCost * operations.rounding;
    const auto measured = static_cast<double>(compress::kMeasuredTokens);
    sum += 2.0 * measured * (operations.layers + operations.head);
  }
  const auto decoded = static_cast<double>(latency_settings(config, 1).new_tokens);
  const double timing =
      work.writing ? 2.0 * kTimedRuns * (dense.prefill + decoded * dense.decode) : 0.0;
  return sum * per_operation + timing;
}

std::string duration_text(double seconds) {
  if (seconds < 45.0) return "less than a minute";
  const double minutes = std::max(1.0, std::round(seconds / 60.0));
  return fmt::format("about {:.0f} minute{}", minutes, minutes == 1.0 ? "" : "s");
}

}  // namespace neuronmm::fit
