#include "compress/narrow_weights.h"

namespace neuronmm::compress {

NarrowWeights::NarrowWeights(const NarrowMlp& mlp, DType stored) {
  const DType dtype = stored == DType::kI8 ? DType::kF32 : stored;
  for (const MlpTensor& tensor : mlp.tensors) {
    if (!tensor.numbers.empty()) {
      numbers_[tensor.name] = tensor.numbers;
      continue;
    }
    DoubleMatrix values = tensor.values;
    if (stored == DType::kI8) round_to(stored, values);
    held_[tensor.name] = {dtype, {values.rows(), values.columns()}, to_checkpoint(values, dtype)};
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
  weight.w_t = view(which + "_proj.weight");
  if (which == "down") {
    weight.out = pivots(which);
  } else {
    weight.in = pivots(numbers_.contains("input_pivots") ? "input" : which);
  }
  return weight;
}

ops::MlpWeight NarrowWeights::mlp() const {
  ops::MlpWeight mlp{linear("gate"), linear("up"), linear("down"), pivots("input")};
  if (!mlp.in.empty()) mlp.gate.in = mlp.up.in = {};
  return mlp;
}

}  // namespace neuronmm::compress
