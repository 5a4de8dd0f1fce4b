#include "finetune/torch_plain.h"

#include <limits>

#include "finetune/torch_types.h"

namespace neuronmm::finetune {

at::Tensor plain_rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps) {
  const at::Tensor mean_square = at::mean(x * x, at::IntArrayRef{-1}, /*keepdim=*/true);
  return x * at::rsqrt(mean_square + eps) * gain;
}

at::Tensor plain_silu_times(const at::Tensor& gate, const at::Tensor& up) {
  const at::ScalarType values = values_of(gate.scalar_type());
  return (at::silu(gate.to(values)) * up.to(values)).to(gate.scalar_type());
}

at::Tensor plain_gelu_times(const at::Tensor& gate, const at::Tensor& up) {
  const at::ScalarType values = values_of(gate.scalar_type());
  return (at::gelu(gate.to(values), "tanh") * up.to(values)).to(gate.scalar_type());
}

at::Tensor plain_rotate_heads(const at::Tensor& x, const Rotation& rotation, double scale) {
  const auto halves = x.to(rotation.cosine.scalar_type()).transpose(1, 2).chunk(2, -1);
  const at::Tensor &a = halves[0], &b = halves[1];
  return at::cat({a * rotation.cosine - b * rotation.sine, b * rotation.cosine + a * rotation.sine},
                 -1) *
         scale;
}

// Uses a mask [T, T] that is 0 where query i sees key j and minus infinity elsewhere, which softmax
// turns into a weight of 0.
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           int64_t window, double score_cap) {
  const int64_t length = q.size(3);
  at::Tensor visible = at::tril(at::ones({length, length}, q.options().dtype(at::kBool)));
  if (window > 0) visible = at::triu(visible, 1 - window);
  const at::Tensor mask =
      at::zeros({length, length}, q.options())
          .masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  at::Tensor scores = at::matmul(q, k.unsqueeze(2).transpose(3, 4));
  if (score_cap > 0.0) scores = at::tanh(scores / score_cap) * score_cap;
  const at::Tensor mixed =
      at::matmul(at::softmax(scores + mask, -1).to(v.scalar_type()), v.unsqueeze(2));
  return mixed.permute({0, 3, 1, 2, 4}).reshape({q.size(0), length, -1});
}

double plain_loss_of_logits(at::Tensor& logits, const at::Tensor& teacher_logits,
                            const at::Tensor& targets, bool with_gradient) {
  const at::ScalarType values = values_of(logits.scalar_type());
  const at::Tensor log_p = at::log_softmax(logits, -1, values);
  at::Tensor p_target = at::zeros_like(log_p).scatter_(1, targets.unsqueeze(1), 1.0);
  double loss = -log_p.gather(1, targets.unsqueeze(1)).sum().item<double>();
  if (teacher_logits.defined()) {
    const at::Tensor log_teacher = at::log_softmax(teacher_logits, -1, values);
    p_target = at::exp(log_teacher);
    loss = ((log_teacher - log_p) * p_target).sum().item<double>();
  }
  if (with_gradient) logits.copy_(at::exp(log_p) - p_target);
  return loss;
}

void plain_adam_update(const AdamTensors& tensors, const AdamStep& step) {
  const auto& [values, m, v, gradients] = tensors;
  const std::vector<at::Tensor> g = at::_foreach_mul(gradients, step.gradient_scale);
  at::_foreach_mul_(m, step.beta1);
  at::_foreach_add_(m, g, 1.0 - step.beta1);
  at::_foreach_mul_(v, step.beta2);
  at::_foreach_addcmul_(v, g, g, 1.0 - step.beta2);
  const std::vector<at::Tensor> roots = at::_foreach_sqrt(v);
  at::_foreach_div_(roots, step.root_correction);
  at::_foreach_add_(roots, step.epsilon);
  at::_foreach_addcdiv_(values, m, roots, -step.rate);
}

double plain_sum_of_squares(const std::vector<at::Tensor>& tensors) {
  const at::Tensor norms = at::stack(at::_foreach_norm(tensors)).to(at::kDouble);
  return (norms * norms).sum().item<double>();
}

}  // namespace neuronmm::finetune
