#include "finetune/torch_product.h"

#include <torch/csrc/autograd/custom_function.h>

namespace neuronmm::finetune {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns whether the CPU has the instructions that oneDNN needs to multiply bf16.
bool onednn_multiplies_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

at::Tensor as_matrix(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& cast_weight) {
    context->save_for_backward({x, cast_weight});
    context->saved_data["type"] = static_cast<int64_t>(weight.scalar_type());
    return matrix_product(x, cast_weight.t());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], grad_y = as_matrix(gradients[0]);
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    at::Tensor grad_x, grad_weight;
    if (context->needs_input_grad(0)) grad_x = matrix_product(grad_y, saved[1]).view(x.sizes());
    if (context->needs_input_grad(1))
      grad_weight = matrix_product(grad_y.t(), as_matrix(x)).to(type);
    return {grad_x, grad_weight, {}};
  }
};

}  // namespace

at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  static const bool multiplies_bf16 = onednn_multiplies_bf16();
  if (a.scalar_type() != at::kBFloat16 || !a.is_cpu() || multiplies_bf16) return at::matmul(a, b);
  return at::matmul(a.to(at::kFloat), b.to(at::kFloat)).to(at::kBFloat16);
}

const at::Tensor& CachedCast::get(const at::Tensor& weight, at::ScalarType type) {
  if (weight.scalar_type() == type) return weight;
  const auto version = static_cast<uint32_t>(weight._version());
  const bool current = copy_.defined() && copy_.scalar_type() == type && version_ == version;
  if (!current) copy_ = weight.detach().to(type);
  version_ = version;
  return copy_;
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& cast_weight) {
  return Product::apply(x, weight, cast_weight.detach());
}

}  // namespace neuronmm::finetune
