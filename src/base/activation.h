#pragma once
// The function of gate and up of an MLP, Y = down(gated(gate(X), up(X))). It is the definition of
// the switch that a config sets and that every backend computes.

#include <algorithm>
#include <cmath>
#include <numbers>

namespace neuronmm {

// The first two multiply activate(gate) by up. The third limits both first (SwigluClamp).
enum class Activation {
  kSilu,           // z / (1 + exp(-z))
  kGeluTanh,       // z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 z^3)))
  kClampedSwiglu,  // the MLPs of gpt-oss
};

// The numbers of kClampedSwiglu, which computes (u + 1) * g / (1 + exp(-alpha * g)). g is the gate,
// at most `limit`, and u is up, limited to [-limit, limit]. The values are those of gpt-oss
// (transformers 5.24, GptOssConfig).
struct SwigluClamp {
  float limit = 7.0f, alpha = 1.702f;

  bool operator==(const SwigluClamp&) const = default;
};

// Returns a(z) of kSilu and kGeluTanh. A switch's value is a logistic function of some t(z), times
// z:
//   silu       t = z
//   gelu_tanh  t = 2 sqrt(2 / pi) (z + 0.044715 z^3), because (1 + tanh(t / 2)) / 2 = 1 / (1 +
//              exp(-t))
inline double activate(Activation activation, double z) {
  constexpr double kSlope = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double t = activation == Activation::kSilu ? z : kSlope * (z + 0.044715 * z * z * z);
  return z / (1.0 + std::exp(-t));
}

// Returns what down multiplies: activate(gate) * up, or clamped SwiGLU.
inline double gated(Activation activation, const SwigluClamp& clamp, double gate, double up) {
  if (activation != Activation::kClampedSwiglu) return activate(activation, gate) * up;
  const double limit = clamp.limit, g = std::min(gate, limit);
  return (std::clamp(up, -limit, limit) + 1.0) * g / (1.0 + std::exp(-double{clamp.alpha} * g));
}

// Returns the derivative of activate(): with the logistic function s(t), it is s + z s (1 - s) t'.
inline double activation_slope(Activation activation, double z) {
  constexpr double kSlope = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const bool silu = activation == Activation::kSilu;
  const double t = silu ? z : kSlope * (z + 0.044715 * z * z * z);
  const double of_t = silu ? 1.0 : kSlope * (1.0 + 3.0 * 0.044715 * z * z);
  const double logistic = 1.0 / (1.0 + std::exp(-t));
  return logistic + z * logistic * (1.0 - logistic) * of_t;
}

}  // namespace neuronmm
