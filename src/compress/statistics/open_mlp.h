#pragma once
// Runs an MLP in single steps, because backends do not show what happens between gate and down. The
// statistics of dense layers (mlp_statistics.cc) and of experts (expert_statistics.cc) use it.

#include <memory>
#include <span>

#include "base/tensor.h"
#include "compress/linear_algebra/linear_algebra.h"
#include "ops/backend.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// An MLP whose neurons are visible. What `weights` points to must outlive it.
class OpenMlp {
 public:
  OpenMlp(const ops::MlpWeight& weights, const ops::Backend& backend);

  // Returns the neurons of x [M, H], [M, neurons()]. Adds the squares of their slopes by gate and
  // by up to `gate_slope` and `up_slope` [1, neurons() or more], those of row i `squares[i]` times,
  // or once if `squares` is empty. Each neuron belongs to one thread, so that the sums are the same
  // for any number of threads.
  Matrix neurons_of(ConstMatrixView x, std::span<const float> squares, DoubleMatrix& gate_slope,
                    DoubleMatrix& up_slope) const;
  // Computes y [M, H] from the neurons.
  void finish(ConstMatrixView neurons, MutableMatrixView y) const { down_->apply(neurons, y); }
  int64_t neurons() const { return neurons_; }

 private:
  // The value of a neuron and its slopes by gate and by up.
  struct Neuron {
    float value, of_gate, of_up;
  };
  Neuron activated(float gate, float up) const;

  Activation activation_;
  SwigluClamp clamp_;
  int64_t neurons_;
  std::unique_ptr<ops::Linear> gate_, up_, down_;
};

// Returns the sum over the rows of the mean square of their elements.
double mean_squares(ConstMatrixView rows);

}  // namespace neuronmm::compress
