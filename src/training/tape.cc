#include "training/tape.h"

#include "base/pieces.h"
#include "training/loops.h"
#include "training/written_values.h"

namespace neuronmm::training {
template <typename T>
const LeftFactor<T>& Value<T>::left(Precision precision) const {
  if (left_ == nullptr) {
    left_ = std::make_unique<LeftFactor<T>>();
    left_->pack(view(), precision);
  }
  return *left_;
}

template <typename T>
const RightFactor<T>& Value<T>::right(Precision precision) const {
  if (right_ == nullptr) {
    right_ = std::make_unique<RightFactor<T>>();
    right_->pack(view(), precision);
  }
  return *right_;
}

template <typename T>
void Value<T>::add_gradient(Rows<T> part) {
  if (!needs_gradient) return;
  if (gradient.empty()) {
    gradient = std::move(part);
    return;
  }
  for_each_piece(rows(), 4 * columns(), [&](int64_t first, int64_t last) {
    add_scaled(gradient.row(first), T{1}, part.row(first), (last - first) * columns(),
               gradient.row(first));
  });
}

template <typename T>
void Value<T>::add_gradient(std::span<const int64_t> some, const Rows<T>& part) {
  if (!needs_gradient) return;
  if (gradient.empty()) {
    gradient = Rows<T>(rows(), columns());
    clear(gradient.view());
  }
  for_each_piece(part.rows(), 4 * columns(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      T* const to = gradient.row(some[static_cast<size_t>(i)]);
      add_scaled(to, T{1}, part.row(i), columns(), to);
    }
  });
}

template <typename T>
void Value<T>::add_gradient(const LeftFactor<T>& a, const RightFactor<T>& w) {
  if (!needs_gradient) return;
  const bool add = !gradient.empty();
  if (!add) gradient = Rows<T>(rows(), columns());
  multiply(a, w, gradient.view(), add);
}

template <typename T>
void Parameter<T>::set(std::string tensor_name, Rows<T> values) {
  name = std::move(tensor_name);
  rows = values.rows();
  columns = values.columns();
  value = std::move(values);
  changed();
}

// Rounding takes long, so that a trained weight is packed in both directions at once after it.
template <typename T>
void Parameter<T>::pack(bool transposed, Precision of_product) const {
  Rows<T> rounded;
  if (rounding) {
    rounded = rounding(value);
  } else if (written) {
    rounded = copy_of<T>(value.view());
    round_to(*written, rounded);
  }
  const MatrixView<const T> used = rounded.empty() ? value.view() : rounded.view();
  const bool both = rounding && trained();
  if (both || transposed) forward_.pack_transposed(used, of_product);
  if (both || !transposed) backward_.pack(used, of_product);
}

template <typename T>
const RightFactor<T>& Parameter<T>::forward(Precision of_tape) const {
  if (forward_.empty()) pack(true, precision(of_tape));
  return forward_;
}

template <typename T>
const RightFactor<T>& Parameter<T>::backward(Precision of_tape) const {
  if (backward_.empty()) pack(false, precision(of_tape));
  return backward_;
}

template struct Value<float>;
template struct Value<double>;
template struct Parameter<float>;
template struct Parameter<double>;

}  // namespace neuronmm::training
