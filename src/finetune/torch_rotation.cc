#include "finetune/torch_rotation.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "finetune/torch_loops.h"
#include "finetune/torch_plain.h"
#include "finetune/torch_types.h"

namespace neuronmm::finetune {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Turns one head at one position, whose `half` pairs have a cosine and a sine each. A `sign` of -1
// turns back.
template <typename V, typename From, typename To>
NMM_VECTOR_CLONES void turn(const From* x, const V* cosine, const V* sine, V scale, V sign,
                            int64_t half, To* y) {
  for (int64_t j = 0; j < half; ++j) {
    const V a = scale * static_cast<V>(widened(x[j]));
    const V b = scale * static_cast<V>(widened(x[j + half]));
    y[j] = narrowed<To>(a * cosine[j] - sign * b * sine[j]);
    y[j + half] = narrowed<To>(b * cosine[j] + sign * a * sine[j]);
  }
}

// Calls body(index by position, index by head, position) for each row of D elements. The indices
// are those of one row in [B, T, heads] and in [B, heads, T].
template <typename Body>
void for_each_row(const at::Tensor& by_position, const Body& body) {
  const int64_t length = by_position.size(1), heads = by_position.size(2);
  const int64_t rows = by_position.size(0) * length;
  const int64_t grain = kParallelElements / (heads * by_position.size(3));
  at::parallel_for(0, rows, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t b = row / length, t = row % length;
      for (int64_t h = 0; h < heads; ++h) {
        body(row * heads + h, (b * heads + h) * length + t, t);
      }
    }
  });
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& cosine, const at::Tensor& sine, double scale) {
    const at::Tensor x = input.contiguous();
    const int64_t n = x.size(3);
    at::Tensor y = at::empty({x.size(0), x.size(2), x.size(1), n}, cosine.options());
    for_types(y.scalar_type(), x.scalar_type(), [&]<typename V, typename D>() {
      for_each_row(x, [&](int64_t from, int64_t to, int64_t t) {
        turn(x.data_ptr<D>() + from * n, cosine.data_ptr<V>() + t * n / 2,
             sine.data_ptr<V>() + t * n / 2, static_cast<V>(scale), V{1}, n / 2,
             y.data_ptr<V>() + to * n);
      });
    });
    context->save_for_backward({cosine, sine});
    context->saved_data["scale"] = scale;
    context->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &cosine = saved[0], &sine = saved[1], grad_y = gradients[0].contiguous();
    const double scale = context->saved_data["scale"].toDouble();
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const int64_t n = grad_y.size(3);
    at::Tensor grad_x = at::empty({grad_y.size(0), grad_y.size(2), grad_y.size(1), n},
                                  grad_y.options().dtype(type));
    for_types(grad_y.scalar_type(), type, [&]<typename V, typename D>() {
      for_each_row(grad_x, [&](int64_t to, int64_t from, int64_t t) {
        turn(grad_y.data_ptr<V>() + from * n, cosine.data_ptr<V>() + t * n / 2,
             sine.data_ptr<V>() + t * n / 2, static_cast<V>(scale), V{-1}, n / 2,
             grad_x.data_ptr<D>() + to * n);
      });
    });
    return {grad_x, {}, {}, {}};
  }
};

}  // namespace

at::Tensor rotate_heads(const at::Tensor& x, const Rotation& rotation, double scale) {
  return x.is_cpu() ? Rotate::apply(x, rotation.cosine, rotation.sine, scale)
                    : plain_rotate_heads(x, rotation, scale);
}

}  // namespace neuronmm::finetune
