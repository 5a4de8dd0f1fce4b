#include "trainium/device/mlp_shape.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace neuronmm::device {
namespace {

struct NamedWeight {
  std::string_view name;
  const ops::LinearWeight& weight;
};
std::string bits_text(const ops::LinearWeight& weight) {
  const int bits = (weight.w_t.quantized() ? weight.w_t : weight.u_t).format.bits;
  return bits == 8 ? "int8" : fmt::format("of {} bits", bits);
}

std::array<NamedWeight, 3> named_weights(const ops::MlpWeight& mlp) {
  return {{{"gate", mlp.gate}, {"up", mlp.up}, {"down", mlp.down}}};
}

Status check_weights(const ops::MlpWeight& mlp) {
  for (const auto& [name, weight] : named_weights(mlp)) {
    if (weight.quantized()) {
      return fail(
          "the NeuronCore's MLP kernels take bf16 weights, {} is {}; use the model that it was "
          "quantized from",
          name, bits_text(weight));
    }
    if (!weight.bias.empty()) {
      return fail("the NeuronCore's MLP kernels take no bias; {} has one", name);
    }
    if (!(name == "down" ? weight.in : weight.out).empty()) {
      return fail("the NeuronCore's MLP kernels take no {} pivots of {}",
                  name == "down" ? "input" : "output", name);
    }
  }
  return {};
}

}  // namespace

// The three matrices may have factors of different ranks. The kernel has one rank, the largest;
// smaller factors are padded with zeros. If one of the matrices has another form, no kernel takes
// the factors.
Result<MlpShape> mlp_shape(const ops::MlpWeight& weight) {
  NMM_TRY(check_weights(weight));
  if (weight.activation != Activation::kSilu) {
    return fail("the NeuronCore's MLP kernels compute SwiGLU; the model's MLPs are {}",
                weight.activation == Activation::kGeluTanh ? "GeGLU (tanh)" : "clamped SwiGLU");
  }
  MlpShape shape{.hidden_size = weight.in_features(),
                 .intermediate_size = weight.neurons(),
                 .input_pivots = weight.in.rank(),
                 .output_pivots = weight.down.out.rank()};
  // No kernel takes own pivots of gate or up alone.
  if (!weight.gate.in.empty() && !weight.up.in.empty()) {
    shape.separate_pivots = true;
    shape.input_pivots = std::max(weight.gate.in.rank(), weight.up.in.rank());
  }
  const auto weights = named_weights(weight);
  const auto is_low_rank = [](const NamedWeight& named) { return named.weight.low_rank(); };
  if (shape.input_pivots == 0 && std::ranges::all_of(weights, is_low_rank)) {
    for (const NamedWeight& named : weights) shape.rank = std::max(shape.rank, named.weight.rank());
  }
  return shape;
}

std::string_view kernel_of(const MlpShape& shape) {
  const bool out = shape.output_pivots > 0;
  if (shape.rank > 0) return "mlp";
  if (shape.separate_pivots) return out ? "pivoted_mlp" : "pivoted_mlp_in";
  if (shape.input_pivots > 0) return out ? "narrow_mlp" : "narrow_mlp_in";
  return out ? "narrow_mlp_out" : "dense_mlp";
}

kernels::KernelShape kernel_shape(const MlpShape& shape, int64_t tokens) {
  return {.M = tokens,
          .K = shape.hidden_size,
          .r = shape.rank > 0 ? shape.rank : shape.input_pivots,
          .N = shape.intermediate_size,
          .s = shape.output_pivots};
}

int num_gathers(const MlpShape& shape) {
  const int input_gathers = shape.separate_pivots ? 2 : 1;
  return (shape.input_pivots > 0 ? input_gathers : 0) + (shape.output_pivots > 0 ? 1 : 0);
}

std::string to_string(const MlpShape& shape) {
  std::string text = fmt::format("hidden size {}, intermediate size {}, rank {}", shape.hidden_size,
                                 shape.intermediate_size, shape.rank);
  if (shape.input_pivots > 0) {
    text += fmt::format(", {} input pivots{}", shape.input_pivots,
                        shape.separate_pivots ? " each" : "");
  }
  if (shape.output_pivots > 0) text += fmt::format(", {} output pivots", shape.output_pivots);
  return text;
}

}  // namespace neuronmm::device
