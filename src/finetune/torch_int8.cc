#include "finetune/torch_int8.h"

#include "ops/quantize.h"

namespace neuronmm::finetune {
namespace {

constexpr double kLargestByte = 127.0;

at::Tensor round_groups(const at::Tensor& x) {
  const int64_t columns = x.size(-1);
  const int64_t missing = (ops::kQuantGroup - columns % ops::kQuantGroup) % ops::kQuantGroup;
  const at::Tensor padded = at::constant_pad_nd(x, {0, missing});
  const at::Tensor groups = padded.unflatten(-1, {-1, ops::kQuantGroup});
  const at::Tensor largest = groups.abs().amax(-1, /*keepdim=*/true);
  // A group of zeros stays one.
  const at::Tensor scale = largest.clamp_min(1e-30) / kLargestByte;
  return (at::round(groups / scale) * scale).flatten(-2).slice(-1, 0, columns);
}

}  // namespace

at::Tensor int8_weight(const at::Tensor& weight) {
  const at::Tensor values = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  const TensorView view = {DType::kF32, values.sizes().vec(),
                           reinterpret_cast<const std::byte*>(values.data_ptr<float>())};
  const ops::QuantizedWeight quantized = ops::quantize(view);
  at::Tensor rounded = at::empty_like(values);
  for (int64_t i = 0; i < quantized.rows; ++i) {
    const int64_t first = i * quantized.columns;
    ops::to_floats(quantized.view(), first, quantized.columns, rounded.data_ptr<float>() + first);
  }
  return rounded.to(weight.options());
}

at::Tensor int8_activations(const at::Tensor& x) {
  at::Tensor change;
  {
    const at::NoGradGuard no_gradients;
    const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor values = x.detach().to(wide);
    change = round_groups(values) - values;
  }
  return (x + change).to(x.scalar_type());
}

}  // namespace neuronmm::finetune
