#pragma once
// The linear layers of ops/weights.h in all their forms.
//
// Letters: M tokens, K in-features, N out-features, r rank. A layer computes Y = X·W (+ bias).

#include <cstdint>
#include <string>
#include <vector>

#include "ops/weights.h"
#include "training/tape.h"

namespace neuronmm::training {

// Elements of a vector that stand for all of its elements (ops::Pivots).
template <typename T>
struct PivotMap {
  std::vector<int32_t> index, others;  // ascending; empty without pivots
  Parameter<T> map;

  bool empty() const { return index.empty(); }
};

// A linear layer: y = x·u·v, or y = x·w if u is absent. In the second case x or y may have pivots.
template <typename T>
struct Linear {
  Parameter<T> w, u, v, bias;
  PivotMap<T> in, out;

  int64_t out_features() const;
};

// Copies the weights of a layer. `stem` begins the names of its tensors: "model.layers.0.mlp.gate".
template <typename T>
void load(const ops::LinearWeight& weight, const std::string& stem, Linear<T>& linear);
template <typename T>
void load(const ops::Pivots& weight, const std::string& stem, PivotMap<T>& pivots);
// Copies a tensor of any dtype. A vector becomes one row, and an absent tensor an absent parameter.
template <typename T>
void load(const ops::WeightView& weight, const std::string& name, Parameter<T>& parameter);

// Gives a matrix an adapter. A is uniform in ±1 / sqrt(in), drawn from the seed, and B is zero (as
// in PEFT), so that the product is unchanged. Their names are NAME.lora_a and NAME.lora_b.
template <typename T>
void add_adapter(Parameter<T>& weight, int64_t rank, double scale, uint64_t seed);
// Returns what the adapter adds to its weight: scale · B·A, [out, in].
template <typename T>
Rows<T> change_of(const Adapter<T>& adapter);

// Calls visit(parameter) for those that are there, and for their adapters.
template <typename T, typename Visit>
void for_each_parameter(Parameter<T>& parameter, const Visit& visit) {
  if (!parameter.present()) return;
  visit(parameter);
  if (parameter.adapter == nullptr) return;
  visit(parameter.adapter->a);
  visit(parameter.adapter->b);
}
template <typename T, typename Visit>
void for_each_parameter(PivotMap<T>& pivots, const Visit& visit) {
  for_each_parameter(pivots.map, visit);
}
template <typename T, typename Visit>
void for_each_parameter(Linear<T>& linear, const Visit& visit) {
  for (Parameter<T>* const parameter : {&linear.w, &linear.u, &linear.v, &linear.bias}) {
    for_each_parameter(*parameter, visit);
  }
  for_each_parameter(linear.in, visit);
  for_each_parameter(linear.out, visit);
}

// Returns x·W, with the weight's adapter, for a matrix that is stored as wᵀ [N, K].
template <typename T>
Tensor<T> product(Tape<T>& tape, const Tensor<T>& x, Parameter<T>& w_t);
// Returns the elements of x at the pivots plus `map` of the others, or x if there are no pivots.
template <typename T>
Tensor<T> narrow(Tape<T>& tape, const Tensor<T>& x, PivotMap<T>& pivots);
// Returns the vectors that the pivots z stand for, or z if there are no pivots.
template <typename T>
Tensor<T> widen(Tape<T>& tape, const Tensor<T>& z, PivotMap<T>& pivots);
template <typename T>
Tensor<T> apply(Tape<T>& tape, const Tensor<T>& x, Linear<T>& linear);

}  // namespace neuronmm::training
