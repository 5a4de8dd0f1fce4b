#pragma once
// The MLPs of a mixture: a router chooses some experts for each token, and the outputs of these
// experts are added up with the router's weights. Backend::make_mixture makes such a layer.
//
// Letters: M tokens, H hidden_size, E experts, k experts per token (`active`).

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "ops/weights.h"

namespace neuronmm::ops {

class Backend;
class Linear;
class Mlp;

// An expert that a token has chosen, and the factor of its output.
struct RoutedExpert {
  int32_t expert = 0;
  float weight = 0.0f;

  bool operator==(const RoutedExpert&) const = default;
};

// Chooses the k experts with the largest logits of every row of `logits` [M, E], and writes them to
// `routed` [M * k], row by row, each row in ascending order of experts. All sums over experts are
// formed in this order, so that a token's result does not depend on other tokens.
//
// The weights are the softmax over the chosen logits if `divided`, and otherwise over all logits,
// in fp32.
//
// Among equal logits, those are chosen that torch.topk chooses on a CPU: it selects with
// std::nth_element, or std::partial_sort if 64 k <= E, on pairs that are compared by value only
// (ATen/native/TopKImpl.h of torch 2.x). As there, NaN counts as the largest value.
void route(ConstMatrixView logits, int64_t active, bool divided, std::span<RoutedExpert> routed);

// The tokens that have chosen each expert.
struct ExpertGroups {
  // The tokens of expert e are rows[first[e]] to rows[first[e + 1] - 1], ascending, and `weights`
  // has their factors. first: [E + 1]; rows and weights: [M * k].
  std::vector<int64_t> first;
  std::vector<int32_t> rows;
  std::vector<float> weights;

  int64_t tokens_of(int64_t expert) const {
    return first[static_cast<size_t>(expert) + 1] - first[static_cast<size_t>(expert)];
  }
};
ExpertGroups group_by_expert(std::span<const RoutedExpert> routed, int64_t active, int64_t experts);

// The router of a mixture. Its weight is widened to fp32, whatever the checkpoint has, because
// rounded logits would choose other experts.
class Router {
 public:
  // The router is a linear layer of `backend`.
  Router(const Backend& backend, const MixtureWeight& weight);
  ~Router();
  Router(Router&&) noexcept;

  // Returns the chosen experts of x [M, H] as route() does, [M * active()].
  std::vector<RoutedExpert> choose(ConstMatrixView x) const;
  int64_t active() const { return active_; }
  int64_t experts() const { return experts_; }

 private:
  int64_t active_, experts_;
  bool divided_;
  std::vector<std::byte> weight_;  // fp32, [E, H]
  std::unique_ptr<Linear> linear_;
};

// The linear layers around the experts of a mixture, if they share bases (MixtureWeight).
class SharedBases {
 public:
  // Computes the sum of the experts' outputs [M, expert_out()] from what they read
  // [M, expert_in()].
  using Experts = std::function<void(ConstMatrixView z, MutableMatrixView sum)>;

  // The bases are linear layers of `backend`.
  SharedBases(const Backend& backend, const MixtureWeight& weight);
  ~SharedBases();

  // Computes y [M, H] from x [M, H]. Without bases, the experts read x and write y.
  void apply(ConstMatrixView x, MutableMatrixView y, const Experts& experts) const;

 private:
  int64_t expert_in_, expert_out_;
  std::unique_ptr<Linear> input_, output_;  // null: there is no such basis
};

// Returns a layer that computes by linear layers and MLPs of `backend`: each expert is applied
// once, to all tokens that have chosen it. Linear layers and MLPs may point into `weight`'s
// checkpoint.
std::unique_ptr<Mlp> compose_mixture(const Backend& backend, const MixtureWeight& weight);

}  // namespace neuronmm::ops
