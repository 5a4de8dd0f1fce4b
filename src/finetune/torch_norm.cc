#include "finetune/torch_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "finetune/torch_loops.h"
#include "finetune/torch_plain.h"
#include "finetune/torch_types.h"

namespace neuronmm::finetune {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename V>
[[gnu::always_inline]] inline V inverse_root(const V* x, int64_t n, V eps) {
  V squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += x[i] * x[i];
  return 1 / std::sqrt(squares / static_cast<V>(n) + eps);
}

// Computes one row. With an `update`, x is replaced by the sum.
template <typename V, typename D>
NMM_VECTOR_CLONES void norm_row(V* x, const D* update, const V* gain, V eps, int64_t n, D* y) {
  if (update != nullptr) {
    for (int64_t i = 0; i < n; ++i) x[i] += static_cast<V>(widened(update[i]));
  }
  const V r = inverse_root(x, n, eps);
  for (int64_t i = 0; i < n; ++i) y[i] = narrowed<D>(x[i] * r * gain[i]);
}

// Adds the gradient of x to `gradient`, which already holds the gradient from other uses of x. If
// there is an `update`, the total is written there, too.
template <typename V, typename D>
NMM_VECTOR_CLONES void norm_row_backward(const V* x, const D* grad_y, const V* gain, V eps,
                                         int64_t n, V* gradient, D* update) {
  const V r = inverse_root(x, n, eps);
  V product = 0;
#pragma omp simd reduction(+ : product)
  for (int64_t i = 0; i < n; ++i) product += static_cast<V>(widened(grad_y[i])) * gain[i] * x[i];
  const V along = r * r * r * product / static_cast<V>(n);
  for (int64_t i = 0; i < n; ++i) {
    gradient[i] += static_cast<V>(widened(grad_y[i])) * gain[i] * r - x[i] * along;
  }
  if (update == nullptr) return;
  for (int64_t i = 0; i < n; ++i) update[i] = narrowed<D>(gradient[i]);
}

// Computes all rows. If there is an `update`, `x` is replaced by the sum.
at::Tensor norm_rows(at::Tensor& x, const at::Tensor& update, const at::Tensor& gain, double eps,
                     at::ScalarType type) {
  at::Tensor y = at::empty(x.sizes(), x.options().dtype(type));
  const int64_t n = x.size(-1);
  for_types(x.scalar_type(), type, [&]<typename V, typename D>() {
    V* const values = x.data_ptr<V>();
    const D* const updates = update.defined() ? update.data_ptr<D>() : nullptr;
    at::parallel_for(0, x.numel() / n, kParallelElements / n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        norm_row(values + i * n, updates == nullptr ? nullptr : updates + i * n, gain.data_ptr<V>(),
                 static_cast<V>(eps), n, y.data_ptr<D>() + i * n);
      }
    });
  });
  return y;
}

void norm_rows_backward(const at::Tensor& x, const at::Tensor& grad_y, const at::Tensor& gain,
                        double eps, at::Tensor& gradient, at::Tensor* update) {
  const int64_t n = x.size(-1);
  for_types(x.scalar_type(), grad_y.scalar_type(), [&]<typename V, typename D>() {
    D* const updates = update == nullptr ? nullptr : update->data_ptr<D>();
    at::parallel_for(0, x.numel() / n, kParallelElements / n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        norm_row_backward(x.data_ptr<V>() + i * n, grad_y.data_ptr<D>() + i * n, gain.data_ptr<V>(),
                          static_cast<V>(eps), n, gradient.data_ptr<V>() + i * n,
                          updates == nullptr ? nullptr : updates + i * n);
      }
    });
  });
}

struct Norm : torch::autograd::Function<Norm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& gain, double eps, at::ScalarType type) {
    at::Tensor x = input.contiguous();
    context->save_for_backward({x, gain});
    context->saved_data["eps"] = eps;
    return norm_rows(x, {}, gain, eps, type);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor gradient = at::zeros_like(saved[0]);
    norm_rows_backward(saved[0], gradients[0].contiguous(), saved[1],
                       context->saved_data["eps"].toDouble(), gradient, nullptr);
    return {gradient, {}, {}, {}};
  }
};

struct AddAndNorm : torch::autograd::Function<AddAndNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& update, const at::Tensor& gain, double eps) {
    at::Tensor sum = x.clone(at::MemoryFormat::Contiguous);
    const at::Tensor y = norm_rows(sum, update.contiguous(), gain, eps, update.scalar_type());
    context->save_for_backward({sum, gain});
    context->saved_data["eps"] = eps;
    return {sum, y};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor gradient = gradients[0].clone(at::MemoryFormat::Contiguous);
    at::Tensor update = at::empty(saved[0].sizes(), gradients[1].options());
    norm_rows_backward(saved[0], gradients[1].contiguous(), saved[1],
                       context->saved_data["eps"].toDouble(), gradient, &update);
    return {gradient, update, {}, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps, at::ScalarType type) {
  return x.is_cpu() ? Norm::apply(x, gain, eps, type) : plain_rms_norm(x, gain, eps).to(type);
}

SumAndNorm add_and_norm(const at::Tensor& x, const at::Tensor& update, const at::Tensor& gain,
                        double eps) {
  if (!x.is_cpu()) {
    const at::Tensor sum = x + update;
    return {sum, plain_rms_norm(sum, gain, eps).to(update.scalar_type())};
  }
  const variable_list both = AddAndNorm::apply(x, update, gain, eps);
  return {both[0], both[1]};
}

}  // namespace neuronmm::finetune
