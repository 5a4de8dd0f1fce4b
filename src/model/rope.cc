#include "model/rope.h"

#include <cmath>
#include <numbers>

namespace neuronmm::model {
namespace {

// Llama 3.1's context extension ("llama3" in Hugging Face's modeling_rope_utils.py): wavelengths
// longer than the original context / low_freq_factor are stretched by `factor`, those shorter than
// context / high_freq_factor are kept, and in between the two are blended.
double scaled(double frequency, const io::Llama3RopeScaling& scaling) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  // How many turns the angle makes over the context that the model was first trained on. The
  // factors of the config are in turns.
  const double turns = scaling.original_max_position_embeddings / wavelength;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  if (turns > scaling.high_freq_factor) return frequency;
  const double kept_share =
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - kept_share) * frequency / scaling.factor + kept_share * frequency;
}

}  // namespace

// The rotation of pair j at position p is p * theta^(-2j / head_dim), computed in fp64 and stored
// once.
std::vector<float> rope_inverse_frequencies(const io::ModelConfig& config) {
  std::vector<float> frequencies;
  for (int64_t j = 0; j < config.head_dim / 2; ++j) {
    const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(config.head_dim);
    const double frequency = std::pow(config.rope_theta, exponent) / config.rope_linear_factor;
    frequencies.push_back(static_cast<float>(
        config.rope_scaling ? scaled(frequency, *config.rope_scaling) : frequency));
  }
  return frequencies;
}

}  // namespace neuronmm::model
