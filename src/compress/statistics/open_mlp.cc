#include "compress/statistics/open_mlp.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace neuronmm::compress {
namespace {

// Returns gate or up as a weight of its own: pivots that gate and up share become the matrix's own
// pivots.
ops::LinearWeight alone(ops::LinearWeight matrix, const ops::MlpWeight& mlp) {
  if (!mlp.in.empty()) matrix.in = mlp.in;
  return matrix;
}

}  // namespace

double mean_squares(ConstMatrixView rows) {
  double sum = 0.0;
  for (int64_t i = 0; i < rows.rows; ++i) {
    for (int64_t j = 0; j < rows.columns; ++j) sum += double{rows.row(i)[j]} * rows.row(i)[j];
  }
  return sum / static_cast<double>(rows.columns);
}

OpenMlp::OpenMlp(const ops::MlpWeight& weights, const ops::Backend& backend)
    : activation_(weights.activation),
      clamp_(weights.clamp),
      neurons_(weights.neurons()),
      gate_(backend.make_linear(alone(weights.gate, weights))),
      up_(backend.make_linear(alone(weights.up, weights))),
      down_(backend.make_linear(weights.down)) {}

Matrix OpenMlp::neurons_of(ConstMatrixView x, std::span<const float> squares,
                           DoubleMatrix& gate_slope, DoubleMatrix& up_slope) const {
  Matrix gate(x.rows, neurons_), up(x.rows, neurons_);
  gate_->apply(x, gate.view());
  up_->apply(x, up.view());
  double* const of_gates = gate_slope.data();
  double* const of_ups = up_slope.data();
  parallel_ranges(neurons_, [&](int64_t first, int64_t last) {
    for (int64_t i = 0; i < x.rows; ++i) {
      const double times = squares.empty() ? 1.0 : squares[static_cast<size_t>(i)];
      float* const h = gate.row(i);
      const float* const u = up.row(i);
      for (int64_t j = first; j < last; ++j) {
        const Neuron neuron = activated(h[j], u[j]);
        of_gates[j] += times * neuron.of_gate * neuron.of_gate;
        of_ups[j] += times * neuron.of_up * neuron.of_up;
        h[j] = neuron.value;
      }
    }
  });
  return gate;
}

OpenMlp::Neuron OpenMlp::activated(float g, float u) const {
  if (activation_ == Activation::kSilu) {
    const float sigmoid = 1.0f / (1.0f + std::exp(-g));
    const float active = g * sigmoid;
    return {active * u, u * (sigmoid * (1.0f + g * (1.0f - sigmoid))), active};
  }
  if (activation_ == Activation::kClampedSwiglu) {
    const float limited = std::min(g, clamp_.limit);
    const float linear = std::clamp(u, -clamp_.limit, clamp_.limit) + 1.0f;
    const float sigmoid = 1.0f / (1.0f + std::exp(-clamp_.alpha * limited));
    const float slope = sigmoid * (1.0f + clamp_.alpha * limited * (1.0f - sigmoid));
    return {linear * limited * sigmoid, g < clamp_.limit ? linear * slope : 0.0f,
            std::abs(u) < clamp_.limit ? limited * sigmoid : 0.0f};
  }
  const auto active = static_cast<float>(activate(activation_, g));
  return {active * u, u * static_cast<float>(activation_slope(activation_, g)), active};
}

}  // namespace neuronmm::compress
