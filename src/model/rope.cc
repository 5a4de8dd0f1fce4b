#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

namespace neuronmm::model {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;

// A pair of elements of a head, and its frequency without scaling in radians per position.
struct Pair {
  double index, frequency;
  double theta, head_dim;
};

double scaled(const Pair& pair, const std::monostate&) { return pair.frequency; }
double scaled(const Pair& pair, const io::DynamicRopeScaling&) { return pair.frequency; }
double scaled(const Pair& pair, const io::LinearRopeScaling& linear) {
  return pair.frequency / linear.factor;
}
double scaled(const Pair& pair, const io::LongRopeScaling& longrope) {
  return pair.frequency / longrope.short_factor[static_cast<size_t>(pair.index)];
}

// Stretches wavelengths longer than original context / low_freq_factor by `factor`, keeps those
// shorter than original context / high_freq_factor, and blends the two in between.
double scaled(const Pair& pair, const io::Llama3RopeScaling& llama3) {
  const double wavelength = kTurn / pair.frequency;
  // The number of turns that the angle makes over the context that the model was first trained on.
  // The config's low_freq_factor and high_freq_factor are numbers of turns, too.
  const double turns = llama3.original_max_position_embeddings / wavelength;
  if (turns < llama3.low_freq_factor) return pair.frequency / llama3.factor;
  if (turns > llama3.high_freq_factor) return pair.frequency;
  const double kept_share =
      (turns - llama3.low_freq_factor) / (llama3.high_freq_factor - llama3.low_freq_factor);
  return (1.0 - kept_share) * pair.frequency / llama3.factor + kept_share * pair.frequency;
}

// The two ends of the blend are not always in order. With contexts of a few tokens, or with betas
// of more turns than any pair makes, both lie on one side of all pairs. The result follows
// transformers' formula in these cases, too.
double scaled(const Pair& pair, const io::YarnRopeScaling& yarn) {
  const auto index_of = [&](double turns) {
    return pair.head_dim * std::log(yarn.original_max_position_embeddings / (turns * kTurn)) /
           (2.0 * std::log(pair.theta));
  };
  double kept_to = index_of(yarn.beta_fast), stretched_from = index_of(yarn.beta_slow);
  if (yarn.truncate) {
    kept_to = std::floor(kept_to);
    stretched_from = std::ceil(stretched_from);
  }
  kept_to = std::max(kept_to, 0.0);
  stretched_from = std::min(stretched_from, pair.head_dim - 1.0);
  if (kept_to == stretched_from) stretched_from += 0.001;
  const double stretched_share =
      std::clamp((pair.index - kept_to) / (stretched_from - kept_to), 0.0, 1.0);
  return stretched_share * pair.frequency / yarn.factor + (1.0 - stretched_share) * pair.frequency;
}

// Scaling variants that stretch the context also scale queries and keys, because attention over a
// longer context would otherwise be less sharp. All other variants use 1.
double attention_factor(const auto&) { return 1.0; }

double attention_factor(const io::YarnRopeScaling& yarn) {
  if (yarn.attention_factor) return *yarn.attention_factor;
  const auto growth = [&](double mscale) { return 1.0 + 0.1 * mscale * std::log(yarn.factor); };
  if (yarn.mscale == 0.0 || yarn.mscale_all_dim == 0.0) return growth(1.0);
  return growth(yarn.mscale) / growth(yarn.mscale_all_dim);
}

double attention_factor(const io::LongRopeScaling& longrope) {
  if (longrope.attention_factor) return *longrope.attention_factor;
  if (longrope.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 +
                   std::log(longrope.factor) / std::log(longrope.original_max_position_embeddings));
}

}  // namespace

ops::RotaryEmbedding rotary_embedding(const io::RopeTable& table, int64_t head_dim) {
  ops::RotaryEmbedding rotary;
  const int64_t width = table.rotary_width > 0 ? table.rotary_width : head_dim;
  const auto frequencies = [&](const auto& scaling, std::vector<float>& out) {
    for (int64_t j = 0; j < width / 2; ++j) {
      const auto index = static_cast<double>(j), dimensions = static_cast<double>(width);
      const double frequency = std::pow(table.theta, -2.0 * index / dimensions);
      const Pair pair = {index, frequency, table.theta, dimensions};
      out.push_back(static_cast<float>(scaled(pair, scaling)));
    }
  };
  std::visit(
      [&](const auto& scaling) {
        frequencies(scaling, rotary.inverse_frequencies);
        rotary.attention_factor = static_cast<float>(attention_factor(scaling));
      },
      table.scaling);
  if (const auto* const longrope = std::get_if<io::LongRopeScaling>(&table.scaling);
      longrope != nullptr && !longrope->long_factor.empty()) {
    io::LongRopeScaling longer = *longrope;
    longer.short_factor = longrope->long_factor;
    frequencies(longer, rotary.long_inverse_frequencies);
  }
  return rotary;
}

RotaryTables::RotaryTables(const io::ModelConfig& config) {
  for (const io::RopeTable& table : config.ropes) {
    tables_.push_back(rotary_embedding(table, config.head_dim));
  }
}

}  // namespace neuronmm::model
