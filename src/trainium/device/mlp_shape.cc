#include "trainium/device/mlp_shape.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace neuronmm::device {
namespace {

struct Part {
  std::string_view name;
  const ops::LinearWeight& weight;
};
std::string bits_text(const ops::LinearWeight& weight) {
  const int bits = (weight.w_t.quantized() ? weight.w_t : weight.u_t).format.bits;
  return bits == 8 ? "int8" : fmt::format("of {} bits", bits);
}

std::array<Part, 3> parts_of(const ops::MlpWeight& mlp) {
  return {{{"gate", mlp.gate}, {"up", mlp.up}, {"down", mlp.down}}};
}

Status check_parts(const ops::MlpWeight& mlp) {
  for (const auto& [name, weight] : parts_of(mlp)) {
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
  NMM_TRY(check_parts(weight));
  MlpShape shape{.hidden_size = weight.in_features(),
                 .intermediate_size = weight.neurons(),
                 .input = weight.in.rank(),
                 .output = weight.down.out.rank()};
  // No kernel takes own pivots of gate or up alone.
  if (!weight.gate.in.empty() && !weight.up.in.empty()) {
    shape.own_pivots = true;
    shape.input = std::max(weight.gate.in.rank(), weight.up.in.rank());
  }
  const auto parts = parts_of(weight);
  const auto of_factors = [](const Part& part) { return part.weight.low_rank(); };
  if (shape.input == 0 && std::ranges::all_of(parts, of_factors)) {
    for (const Part& part : parts) shape.rank = std::max(shape.rank, part.weight.rank());
  }
  return shape;
}

std::string_view kernel_of(const MlpShape& shape) {
  const bool out = shape.output > 0;
  if (shape.rank > 0) return "mlp";
  if (shape.own_pivots) return out ? "pivoted_mlp" : "pivoted_mlp_in";
  if (shape.input > 0) return out ? "narrow_mlp" : "narrow_mlp_in";
  return out ? "narrow_mlp_out" : "dense_mlp";
}

kernels::KernelShape kernel_shape(const MlpShape& shape, int64_t tokens) {
  return {.M = tokens,
          .K = shape.hidden_size,
          .r = shape.rank > 0 ? shape.rank : shape.input,
          .N = shape.intermediate_size,
          .s = shape.output};
}

int gathers(const MlpShape& shape) {
  const int of_x = shape.own_pivots ? 2 : 1;
  return (shape.input > 0 ? of_x : 0) + (shape.output > 0 ? 1 : 0);
}

std::string to_string(const MlpShape& shape) {
  std::string text = fmt::format("hidden size {}, intermediate size {}, rank {}", shape.hidden_size,
                                 shape.intermediate_size, shape.rank);
  if (shape.input > 0) {
    text += fmt::format(", {} input pivots{}", shape.input, shape.own_pivots ? " each" : "");
  }
  if (shape.output > 0) text += fmt::format(", {} output pivots", shape.output);
  return text;
}

}  // namespace neuronmm::device
