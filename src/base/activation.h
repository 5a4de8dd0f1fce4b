#pragma once
// The function between gate and up of an MLP, Y = down(activate(gate(X)) * up(X)). It is
// the definition of the switch that a config sets and that every backend computes.

#include <cmath>
#include <numbers>

namespace neuronmm {

enum class Activation {
  kSilu,      // z / (1 + exp(-z))
  kGeluTanh,  // z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 z^3)))
};

// Returns a(z). A switch's value is a logistic function of some t(z), times z:
//   silu       t = z
//   gelu_tanh  t = 2 sqrt(2 / pi) (z + 0.044715 z^3), because (1 + tanh(t / 2)) / 2 = 1 / (1 +
//              exp(-t))
inline double activate(Activation activation, double z) {
  constexpr double kSlope = 2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double t = activation == Activation::kSilu ? z : kSlope * (z + 0.044715 * z * z * z);
  return z / (1.0 + std::exp(-t));
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
