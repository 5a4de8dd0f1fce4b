#pragma once
// Mixtures of experts: a router chooses some MLPs for every token (ops/mixture.h).
//
// Letters: M tokens, H hidden_size, E experts, k experts per token.

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ops/weights.h"
#include "training/mlp.h"

namespace neuronmm::training {

// The weights of a mixture, Y = Σ w_e · MLP_e(X) over the k experts of each token. Products of the
// router are never rounded, as in inference, because rounded logits would choose other experts.
// With shared bases (ops::MixtureWeight) the experts read input(X), and Y is output of their sum.
template <typename T>
struct Mixture {
  Linear<T> router;            // [E, H]
  Linear<T> input, output;     // absent without bases
  std::deque<Mlp<T>> experts;  // they cannot be moved
  int64_t active = 0;
  // Whether the weights of a token are the softmax over the logits of its experts, and not their
  // shares of the softmax over all.
  bool divided = true;

  bool empty() const { return experts.empty(); }
  // The choice of experts is not differentiated. The backward pass calls `observer`, unless it is
  // empty, with the gradient with respect to Y as that of down, and with empty ones of gate and up.
  Tensor<T> run(Tape<T>& tape, const Tensor<T>& x, const MlpObserver<T>& observer);
};

// Returns whether a tensor is the weight or the bias of a router.
bool is_of_router(std::string_view name);

// Copies the weights. `prefix` begins the names of their tensors: "model.layers.0.mlp.".
template <typename T>
void load(const ops::MixtureWeight& weight, const std::string& prefix, Mixture<T>& mixture);

// The experts of every token, and their places.
struct Routing {
  int64_t active = 0;
  std::vector<int64_t> experts;  // [M · k], ascending for each token
  // The row of each choice among the rows of its expert, [M · k].
  std::vector<int64_t> places;
  // The tokens of each expert, ascending, [E].
  std::vector<std::vector<int64_t>> tokens;
};
// Chooses as ops::route() does, by the logits [M, E] in fp32.
template <typename T>
Routing routing_of(MatrixView<const T> logits, int64_t active);
// Returns the weights [M, k] of the chosen experts.
template <typename T>
Tensor<T> expert_weights(Tape<T>& tape, const Tensor<T>& logits, const Routing& routing,
                         bool divided);
// Returns the sums [M, H] of the weighted outputs. outputs[e] has a row for each token of expert e,
// and is null without tokens. A token's sum is formed in the order of its experts.
template <typename T>
Tensor<T> combined(Tape<T>& tape, const Routing& routing, const Tensor<T>& weights,
                   std::vector<Tensor<T>> outputs);

template <typename T, typename Visit>
void for_each_parameter(Mixture<T>& mixture, const Visit& visit) {
  for (Linear<T>* const linear : {&mixture.router, &mixture.input, &mixture.output}) {
    for_each_parameter(*linear, visit);
  }
  for (Mlp<T>& expert : mixture.experts) for_each_parameter(expert, visit);
}

}  // namespace neuronmm::training
