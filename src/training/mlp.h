#pragma once
// Gated MLPs that can be trained, in every form that a checkpoint may hold.
//
// Letters: M tokens, H hidden_size, I neurons.

#include <functional>
#include <string>

#include "base/activation.h"
#include "ops/weights.h"
#include "training/linear.h"
#include "training/tape.h"

namespace neuronmm::training {

// The gradients with respect to what gate (before the activation), up and down compute: [M, I],
// [M, I] and [M, H]. That of down is taken before the norm of the MLP's output, if there is one. A
// mixture of experts has only that of its sum, as that of down.
template <typename T>
struct MlpGradients {
  MatrixView<const T> gate, up, down;
};
template <typename T>
using MlpObserver = std::function<void(const MlpGradients<T>&)>;

// Y = down(gated(gate(t), up(t))), where t = in(x) (base/activation.h).
template <typename T>
struct Mlp {
  Linear<T> gate, up, down;
  PivotMap<T> in;
  Activation activation = Activation::kSilu;
  SwigluClamp clamp = {};

  // The backward pass calls `observer`, unless it is empty.
  Tensor<T> run(Tape<T>& tape, const Tensor<T>& x, const MlpObserver<T>& observer);
};

// Copies the weights. `prefix` begins the names of their tensors: "model.layers.0.mlp.".
template <typename T>
void load(const ops::MlpWeight& weight, const std::string& prefix, Mlp<T>& mlp);

template <typename T, typename Visit>
void for_each_parameter(Mlp<T>& mlp, const Visit& visit) {
  for (Linear<T>* const linear : {&mlp.gate, &mlp.up, &mlp.down}) {
    for_each_parameter(*linear, visit);
  }
  for_each_parameter(mlp.in, visit);
}

}  // namespace neuronmm::training
