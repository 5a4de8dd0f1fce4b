#include "compress/factors/narrow_weights.h"

namespace neuronmm::compress {

NarrowWeights::NarrowWeights(const NarrowMlp& mlp, const StoredFormat& stored,
                             Activation activation)
    : activation_(activation) {
  const DType dtype = staged_dtype(stored);
  for (const MlpTensor& tensor : mlp.tensors) {
    if (!tensor.numbers.empty()) {
      numbers_[tensor.name] = tensor.numbers;
      continue;
    }
    if (tensor.is_bias()) {
      held_[tensor.name] = {DType::kF32, tensor.shape(), to_checkpoint(tensor.values, DType::kF32)};
      continue;
    }
    const bool map = tensor.name.ends_with("_pivot_proj.weight");
    held_[tensor.name] = {dtype,
                          {tensor.values.rows(), tensor.values.columns()},
                          stored_values(map ? map_format(stored) : stored, tensor.values)};
  }
}

TensorView NarrowWeights::view(const std::string& name) const {
  const Held& held = held_.at(name);
  return {held.dtype, held.shape, held.bytes.data()};
}

ops::Pivots NarrowWeights::pivots(const std::string& which) const {
  const auto found = numbers_.find(which + "_pivots");
  if (found == numbers_.end()) return {};
  return {found->second, view(which + "_pivot_proj.weight")};
}

ops::LinearWeight NarrowWeights::linear(const std::string& which) const {
  ops::LinearWeight weight;
  const std::string bias = which + std::string(kBiasEnding);
  if (held_.contains(bias)) weight.bias = view(bias);
  // Checkpoints call the factor that is applied first "v".
  if (held_.contains(which + "_v_proj.weight")) {
    weight.u_t = view(which + "_v_proj.weight");
    weight.v_t = view(which + "_u_proj.weight");
    return weight;
  }
  weight.w_t = view(which + "_proj.weight");
  if (which == "down") {
    weight.out = pivots(which);
  } else {
    weight.in = pivots(numbers_.contains("input_pivots") ? "input" : which);
  }
  return weight;
}

ops::MlpWeight NarrowWeights::mlp() const {
  ops::MlpWeight mlp{linear("gate"), linear("up"), linear("down"), pivots("input"), activation_};
  if (!mlp.in.empty()) mlp.gate.in = mlp.up.in = {};
  return mlp;
}

}  // namespace neuronmm::compress
