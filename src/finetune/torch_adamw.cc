#include "finetune/torch_adamw.h"

#include <algorithm>
#include <numeric>

#include <ATen/Parallel.h>

#include "finetune/torch_loops.h"
#include "finetune/torch_plain.h"
#include "finetune/torch_types.h"

namespace neuronmm::finetune {
namespace {

// The number of squares that are summed in fp32, which loses little. The sums of the pieces are
// added in fp64.
constexpr int64_t kSquaresPiece = 4096;

template <typename V>
NMM_VECTOR_CLONES void adam_loop(V* value, V* m, V* v, const V* gradient, int64_t n,
                                 const AdamStep& step) {
  const V beta1 = static_cast<V>(step.beta1), beta2 = static_cast<V>(step.beta2);
  const V rest1 = static_cast<V>(1 - step.beta1), rest2 = static_cast<V>(1 - step.beta2);
  const V scale = static_cast<V>(step.gradient_scale), rate = static_cast<V>(step.rate);
  const V root = static_cast<V>(1 / step.root_correction), epsilon = static_cast<V>(step.epsilon);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const V g = gradient[i] * scale;
    m[i] = beta1 * m[i] + rest1 * g;
    v[i] = beta2 * v[i] + rest2 * g * g;
    value[i] -= rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
  }
}

template <typename V>
NMM_VECTOR_CLONES V squares_of(const V* x, int64_t n) {
  V sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

void update_one(at::Tensor value, at::Tensor m, at::Tensor v, const at::Tensor& gradient,
                const AdamStep& step) {
  NMM_CHECK(value.is_contiguous() && m.is_contiguous() && v.is_contiguous());
  const at::Tensor g = gradient.contiguous();
  for_types(value.scalar_type(), value.scalar_type(), [&]<typename V, typename D>() {
    at::parallel_for(0, value.numel(), kParallelElements, [&](int64_t first, int64_t last) {
      adam_loop(value.data_ptr<V>() + first, m.data_ptr<V>() + first, v.data_ptr<V>() + first,
                g.data_ptr<V>() + first, last - first, step);
    });
  });
}

double squares_of_one(const at::Tensor& tensor) {
  const at::Tensor x = tensor.contiguous();
  std::vector<double> pieces(static_cast<size_t>((x.numel() + kSquaresPiece - 1) / kSquaresPiece));
  for_types(x.scalar_type(), x.scalar_type(), [&]<typename V, typename D>() {
    at::parallel_for(0, std::ssize(pieces), 4, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        const int64_t n = std::min(kSquaresPiece, x.numel() - i * kSquaresPiece);
        pieces[static_cast<size_t>(i)] =
            static_cast<double>(squares_of(x.data_ptr<V>() + i * kSquaresPiece, n));
      }
    });
  });
  return std::accumulate(pieces.begin(), pieces.end(), 0.0);
}

bool on_cpu(const std::vector<at::Tensor>& tensors) {
  return tensors.empty() || tensors.front().is_cpu();
}

}  // namespace

void adam_update(const AdamTensors& tensors, const AdamStep& step) {
  if (on_cpu(tensors.values)) {
    for (size_t i = 0; i < tensors.values.size(); ++i) {
      update_one(tensors.values[i], tensors.m[i], tensors.v[i], tensors.gradients[i], step);
    }
  } else {
    plain_adam_update(tensors, step);
  }
  // The loops above write without torch's knowledge, and the list operations of old versions of
  // torch do not count versions. The version is counted here, so that copies of the old value
  // (CachedCast) are made again.
  for (const at::Tensor& value : tensors.values) value.unsafeGetTensorImpl()->bump_version();
}

double sum_of_squares(const std::vector<at::Tensor>& tensors) {
  if (!on_cpu(tensors)) return plain_sum_of_squares(tensors);
  double sum = 0.0;
  for (const at::Tensor& tensor : tensors) sum += squares_of_one(tensor);
  return sum;
}

}  // namespace neuronmm::finetune
