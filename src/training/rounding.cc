#include "training/rounding.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"
#include "ops/weights.h"

namespace neuronmm::training {
namespace {

constexpr int64_t kRoundWork = 8;  // of an element, in multiply-adds. Assumed.

// The lower bound keeps a group of zeros at zero.
template <typename T>
void round_group(T* x, int64_t count) {
  T largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
  const T scale = std::max(largest, T{1e-30f}) / T{127};
  for (int64_t i = 0; i < count; ++i) x[i] = std::nearbyint(x[i] / scale) * scale;
}

}  // namespace

template <typename T>
void round_rows(MatrixView<T> x) {
  for_each_piece(x.rows, kRoundWork * x.columns, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t j = 0; j < x.columns; j += ops::kQuantGroup) {
        round_group(x.row(i) + j, std::min(ops::kQuantGroup, x.columns - j));
      }
    }
  });
}

template <typename T>
Tensor<T> rounded_input(Tape<T>& tape, const Tensor<T>& x, const Parameter<T>& weight) {
  if (!weight.rounding || !weight.rounds_input) return x;
  Rows<T> y = copy_of<T>(x->view());
  round_rows(y.view());
  const Tensor<T> result = make_tensor(std::move(y), x->needs_gradient);
  tape.record(result, [x](Value<T>& of) { x->add_gradient(std::move(of.gradient)); });
  return result;
}

#define NMM_INSTANTIATE(T)                 \
  template void round_rows(MatrixView<T>); \
  template Tensor<T> rounded_input(Tape<T>&, const Tensor<T>&, const Parameter<T>&);
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
