#include "finetune/torch_divergence.h"

#include <algorithm>
#include <numeric>

#include <ATen/Parallel.h>

#include "finetune/torch_loops.h"
#include "finetune/torch_plain.h"
#include "finetune/torch_types.h"

namespace neuronmm::finetune {
namespace {

// The number of terms that are summed in fp32, which loses little. The sums of the pieces are added
// in fp64.
constexpr int64_t kLogitsPiece = 2048;

template <typename D>
NMM_VECTOR_CLONES Wide<D> largest_of(const D* x, int64_t n) {
  Wide<D> largest = widened(x[0]);
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    const Wide<D> value = widened(x[i]);
    largest = value > largest ? value : largest;
  }
  return largest;
}

// The sums over a piece of e^(x - max x), of e^(w - max w), and of e^(w - max w) ((w - max w) - (x
// - max x)).
template <typename V>
struct Sums {
  V model = 0, teacher = 0, difference = 0;
};

template <typename D>
NMM_VECTOR_CLONES Sums<Wide<D>> sums_of(const D* x, Wide<D> largest, const D* teacher,
                                        Wide<D> largest_teacher, int64_t n) {
  Wide<D> model_sum = 0, teacher_sum = 0, difference = 0;
#pragma omp simd reduction(+ : model_sum, teacher_sum, difference)
  for (int64_t i = 0; i < n; ++i) {
    const Wide<D> a = widened(x[i]) - largest, b = widened(teacher[i]) - largest_teacher;
    const Wide<D> weight = exp_of(b);
    model_sum += exp_of(a);
    teacher_sum += weight;
    difference += weight * (b - a);
  }
  return {model_sum, teacher_sum, difference};
}

template <typename D>
NMM_VECTOR_CLONES Wide<D> sum_of(const D* x, Wide<D> largest, int64_t n) {
  Wide<D> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += exp_of(widened(x[i]) - largest);
  return sum;
}

template <typename D>
NMM_VECTOR_CLONES void gradient_of(D* x, Wide<D> largest, Wide<D> model_share, const D* teacher,
                                   Wide<D> largest_teacher, Wide<D> teacher_share, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] = narrowed<D>(model_share * exp_of(widened(x[i]) - largest) -
                       teacher_share * exp_of(widened(teacher[i]) - largest_teacher));
  }
}

template <typename D>
NMM_VECTOR_CLONES void probabilities_of(D* x, Wide<D> largest, Wide<D> share, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = narrowed<D>(share * exp_of(widened(x[i]) - largest));
}

// Returns the divergence sum w log(w / p) of the distributions p and w of one row. It is the sum of
// w times the difference of the logits, minus the difference of the logarithms of both sums of
// exponentials.
template <typename D>
double divergence_of_row(D* x, const D* teacher, int64_t n, bool with_gradient) {
  using V = Wide<D>;
  const V largest = largest_of(x, n), largest_teacher = largest_of(teacher, n);
  Sums<double> all;
  for (int64_t first = 0; first < n; first += kLogitsPiece) {
    const Sums<V> piece = sums_of(x + first, largest, teacher + first, largest_teacher,
                                  std::min(kLogitsPiece, n - first));
    all.model += static_cast<double>(piece.model);
    all.teacher += static_cast<double>(piece.teacher);
    all.difference += static_cast<double>(piece.difference);
  }
  if (with_gradient) {
    gradient_of(x, largest, static_cast<V>(1 / all.model), teacher, largest_teacher,
                static_cast<V>(1 / all.teacher), n);
  }
  return all.difference / all.teacher - std::log(all.teacher) + std::log(all.model);
}

template <typename D>
double cross_entropy_of_row(D* x, int64_t target, int64_t n, bool with_gradient) {
  using V = Wide<D>;
  const V largest = largest_of(x, n), target_logit = widened(x[target]);
  double sum = 0;
  for (int64_t first = 0; first < n; first += kLogitsPiece) {
    sum += static_cast<double>(sum_of(x + first, largest, std::min(kLogitsPiece, n - first)));
  }
  const double loss = std::log(sum) - static_cast<double>(target_logit - largest);
  if (with_gradient) {
    probabilities_of(x, largest, static_cast<V>(1 / sum), n);
    x[target] = narrowed<D>(static_cast<V>(std::expm1(-loss)));
  }
  return loss;
}

}  // namespace

// The rows' losses are added in their order, so that the sum does not depend on the number of
// threads.
double loss_of_logits(at::Tensor& logits, const at::Tensor& teacher_logits,
                      const at::Tensor& targets, bool with_gradient) {
  if (!logits.is_cpu()) return plain_loss_of_logits(logits, teacher_logits, targets, with_gradient);
  NMM_CHECK(logits.is_contiguous() &&
            (!teacher_logits.defined() || teacher_logits.is_contiguous()));
  const int64_t rows = logits.size(0), n = logits.size(1);
  std::vector<double> losses(static_cast<size_t>(rows));
  for_types(values_of(logits.scalar_type()), logits.scalar_type(), [&]<typename V, typename D>() {
    at::parallel_for(0, rows, kParallelElements / n, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        D* const row = logits.data_ptr<D>() + i * n;
        losses[static_cast<size_t>(i)] =
            teacher_logits.defined()
                ? divergence_of_row(row, teacher_logits.data_ptr<D>() + i * n, n, with_gradient)
                : cross_entropy_of_row(row, targets.data_ptr<int64_t>()[i], n, with_gradient);
      }
    });
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace neuronmm::finetune
