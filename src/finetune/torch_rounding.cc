#include "finetune/torch_rounding.h"

#include <ATen/core/grad_mode.h>

#include "base/parallel.h"

namespace neuronmm::finetune {
namespace {

constexpr double kLargestByte = 127.0;

at::Tensor round_groups(const at::Tensor& x) {
  const int64_t columns = x.size(-1);
  const int64_t missing = (ops::kQuantGroup - columns % ops::kQuantGroup) % ops::kQuantGroup;
  const at::Tensor padded = at::constant_pad_nd(x, {0, missing});
  const at::Tensor groups = padded.unflatten(-1, {-1, ops::kQuantGroup});
  const at::Tensor largest = groups.abs().amax(-1, /*keepdim=*/true);
  // The lower bound keeps a group of zeros at zero.
  const at::Tensor scale = largest.clamp_min(1e-30) / kLargestByte;
  return (at::round(groups / scale) * scale).flatten(-2).slice(-1, 0, columns);
}

}  // namespace

ops::QuantizedWeight stored_weight(const at::Tensor& weight, const KeptGrid& grid) {
  const at::Tensor values = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  return grid.round({DType::kF32, values.sizes().vec(),
                     reinterpret_cast<const std::byte*>(values.data_ptr<float>())});
}

at::Tensor rounded_weight(const at::Tensor& weight, const KeptGrid& grid) {
  const ops::QuantizedWeight stored = stored_weight(weight, grid);
  const ops::WeightView view = stored.view();
  at::Tensor rounded = at::empty(weight.sizes(), at::TensorOptions(at::kFloat));
  float* const values = rounded.data_ptr<float>();
  parallel_for(stored.rows, [&](int64_t i) {
    const int64_t first = i * stored.columns;
    ops::to_floats(view, first, stored.columns, values + first);
  });
  return rounded.to(weight.options());
}

at::Tensor rounded_activations(const at::Tensor& x) {
  at::Tensor rounding_error;
  {
    const at::NoGradGuard no_gradients;
    const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor values = x.detach().to(wide);
    rounding_error = round_groups(values) - values;
  }
  return (x + rounding_error).to(x.scalar_type());
}

}  // namespace neuronmm::finetune
