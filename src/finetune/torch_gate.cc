#include "finetune/torch_gate.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "finetune/torch_loops.h"
#include "finetune/torch_plain.h"
#include "finetune/torch_types.h"

namespace neuronmm::finetune {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename D>
NMM_VECTOR_CLONES void gate_loop(const D* gate, const D* up, int64_t n, D* y) {
  for (int64_t i = 0; i < n; ++i) {
    const Wide<D> g = widened(gate[i]);
    y[i] = narrowed<D>(g / (1 + exp_of(-g)) * widened(up[i]));
  }
}

template <typename D>
NMM_VECTOR_CLONES void gate_loop_backward(const D* gate, const D* up, const D* grad_y, int64_t n,
                                          D* grad_gate, D* grad_up) {
  for (int64_t i = 0; i < n; ++i) {
    const Wide<D> g = widened(gate[i]), gradient = widened(grad_y[i]);
    const Wide<D> sigmoid = 1 / (1 + exp_of(-g));
    grad_up[i] = narrowed<D>(gradient * g * sigmoid);
    grad_gate[i] = narrowed<D>(gradient * widened(up[i]) * sigmoid * (1 + g * (1 - sigmoid)));
  }
}

struct SiluTimes : torch::autograd::Function<SiluTimes> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& any_gate,
                            const at::Tensor& any_up) {
    const at::Tensor gate = any_gate.contiguous(), up = any_up.contiguous();
    at::Tensor y = at::empty_like(gate);
    for_types(values_of(y.scalar_type()), y.scalar_type(), [&]<typename V, typename D>() {
      at::parallel_for(0, y.numel(), kParallelElements, [&](int64_t first, int64_t last) {
        gate_loop(gate.data_ptr<D>() + first, up.data_ptr<D>() + first, last - first,
                  y.data_ptr<D>() + first);
      });
    });
    context->save_for_backward({gate, up});
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], grad_y = gradients[0].contiguous();
    at::Tensor grad_gate = at::empty_like(gate), grad_up = at::empty_like(up);
    for_types(values_of(grad_y.scalar_type()), grad_y.scalar_type(), [&]<typename V, typename D>() {
      at::parallel_for(0, grad_y.numel(), kParallelElements, [&](int64_t first, int64_t last) {
        gate_loop_backward(gate.data_ptr<D>() + first, up.data_ptr<D>() + first,
                           grad_y.data_ptr<D>() + first, last - first,
                           grad_gate.data_ptr<D>() + first, grad_up.data_ptr<D>() + first);
      });
    });
    return {grad_gate, grad_up};
  }
};

}  // namespace

at::Tensor silu_times(const at::Tensor& gate, const at::Tensor& up) {
  return gate.is_cpu() ? SiluTimes::apply(gate, up) : plain_silu_times(gate, up);
}

at::Tensor gate_times(Activation activation, const at::Tensor& gate, const at::Tensor& up) {
  return activation == Activation::kSilu ? silu_times(gate, up) : plain_gelu_times(gate, up);
}

}  // namespace neuronmm::finetune
