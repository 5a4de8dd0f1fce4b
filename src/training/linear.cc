#include "training/linear.h"

#include <cmath>
#include <random>

#include "base/pieces.h"
#include "training/elementwise.h"
#include "training/loops.h"
#include "training/rounding.h"

namespace neuronmm::training {
namespace {

// Moving an element costs as much as this many multiply-adds. Assumed.
constexpr int64_t kMoveWork = 2;
// Reading an element of a checkpoint costs as much as this many. Assumed.
constexpr int64_t kLoadWork = 4;
// The columns whose sums a thread computes at a time.
constexpr int64_t kColumns = 64;

// Adds the sums of the columns of dy to `sums`. Each column is one chain, in the order of the rows.
template <typename T>
NMM_TRAINING_CLONES void add_columns(MatrixView<const T> dy, T* sums) {
  double totals[kColumns] = {};
  for (int64_t i = 0; i < dy.rows; ++i) {
    const T* const row = dy.row(i);
    for (int64_t j = 0; j < dy.columns; ++j) totals[j] += static_cast<double>(row[j]);
  }
  for (int64_t j = 0; j < dy.columns; ++j) sums[j] += static_cast<T>(totals[j]);
}

// Adds to the weight's gradient [N, K] that of Y = X·W.
template <typename T>
void add_weight_gradient(MatrixView<const T> dy, const RightFactor<T>& x, Precision precision,
                         Parameter<T>& w_t) {
  if (!w_t.trained()) return;
  LeftFactor<T> dy_t;
  dy_t.pack_transposed(dy, precision);
  multiply(dy_t, x, w_t.gradient.view(), true);
}

// Returns some columns of x.
template <typename T>
Rows<T> columns_of(MatrixView<const T> x, const std::vector<int32_t>& columns) {
  Rows<T> out(x.rows, std::ssize(columns));
  for_each_piece(x.rows, kMoveWork * out.columns(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t j = 0; j < out.columns(); ++j) out.row(i)[j] = x.row(i)[columns[j]];
    }
  });
  return out;
}

// Returns the elements that are no pivots, as the map's product takes them.
template <typename T>
Rows<T> inputs_of_map(MatrixView<const T> x, const PivotMap<T>& pivots) {
  Rows<T> others = columns_of(x, pivots.others);
  if (pivots.map.rounding) round_rows(others.view());
  return others;
}

// Returns a matrix whose columns `index` and `others` are those of a and b.
template <typename T>
Rows<T> merged_columns(const Rows<T>& a, const std::vector<int32_t>& index, const Rows<T>& b,
                       const std::vector<int32_t>& others) {
  Rows<T> out(a.rows(), a.columns() + b.columns());
  for_each_piece(out.rows(), kMoveWork * out.columns(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t j = 0; j < a.columns(); ++j) out.row(i)[index[j]] = a.row(i)[j];
      for (int64_t j = 0; j < b.columns(); ++j) out.row(i)[others[j]] = b.row(i)[j];
    }
  });
  return out;
}

// Adds the bias to y in place, which no call has read yet.
template <typename T>
void add_bias(Tape<T>& tape, const Tensor<T>& y, Parameter<T>& bias) {
  for_each_piece(y->rows(), kMoveWork * y->columns(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t j = 0; j < y->columns(); ++j) y->data.row(i)[j] += bias.value.data()[j];
    }
  });
  if (!bias.trained()) return;
  y->needs_gradient = true;
  tape.record(y, [&bias](Value<T>& result) {
    const MatrixView<const T> dy = result.gradient.view();
    parallel_for((dy.columns + kColumns - 1) / kColumns, [&](int64_t piece) {
      const int64_t first = piece * kColumns;
      add_columns<T>({dy.data + first, dy.rows, std::min(kColumns, dy.columns - first), dy.stride},
                     bias.gradient.data() + first);
    });
  });
}

}  // namespace

template <typename T>
int64_t Linear<T>::out_features() const {
  if (u.present()) return v.rows;
  return out.empty() ? w.rows : w.rows + std::ssize(out.others);
}

template <typename T>
void load(const ops::WeightView& weight, const std::string& name, Parameter<T>& parameter) {
  if (weight.empty()) return;
  const bool vector = weight.shape.size() == 1;
  Rows<T> values(vector ? 1 : weight.rows(), vector ? weight.size() : weight.columns());
  for_each_piece(values.rows(), kLoadWork * values.columns(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        to_floats(weight, i * values.columns(), values.columns(), values.row(i));
      } else {
        to_doubles(weight, i * values.columns(), values.columns(), values.row(i));
      }
    }
  });
  parameter.set(name, std::move(values));
}

template <typename T>
void load(const ops::Pivots& weight, const std::string& stem, PivotMap<T>& pivots) {
  if (weight.empty()) return;
  pivots.index = weight.index;
  pivots.others = ops::non_pivots(weight);
  load(weight.map_t, stem + "_pivot_proj.weight", pivots.map);
}

template <typename T>
void load(const ops::LinearWeight& weight, const std::string& stem, Linear<T>& linear) {
  load(weight.w_t, stem + "_proj.weight", linear.w);
  // Checkpoints cross the names of u and v (ops::LinearWeight).
  load(weight.u_t, stem + "_v_proj.weight", linear.u);
  load(weight.v_t, stem + "_u_proj.weight", linear.v);
  load(ops::WeightView(weight.bias), stem + "_proj.bias", linear.bias);
  load(weight.in, stem, linear.in);
  load(weight.out, stem, linear.out);
}

template <typename T>
void add_adapter(Parameter<T>& weight, int64_t rank, double scale, uint64_t seed) {
  weight.adapter = std::make_unique<Adapter<T>>();
  weight.adapter->scale = scale;
  Rows<T> a(rank, weight.columns), b(weight.rows, rank);
  std::mt19937_64 random(seed);
  const double limit = 1.0 / std::sqrt(static_cast<double>(weight.columns));
  for (int64_t i = 0; i < a.size(); ++i) {
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;  // [0, 1)
    a.data()[i] = static_cast<T>(limit * (2.0 * share - 1.0));
  }
  clear(b.view());
  weight.adapter->a.set(weight.name + ".lora_a", std::move(a));
  weight.adapter->b.set(weight.name + ".lora_b", std::move(b));
}

template <typename T>
Rows<T> change_of(const Adapter<T>& adapter) {
  LeftFactor<T> left;
  RightFactor<T> right;
  left.pack(adapter.b.value.view(), Precision::kFp32);
  right.pack(adapter.a.value.view(), Precision::kFp32);
  Rows<T> change(adapter.b.rows, adapter.a.columns);
  multiply(left, right, change.view());
  scaled(static_cast<T>(adapter.scale), change.data(), change.size(), change.data());
  return change;
}

// Y = X·W, dX = dY·Wᵀ, dW = Xᵀ·dY.
template <typename T>
Tensor<T> product(Tape<T>& tape, const Tensor<T>& unrounded, Parameter<T>& w_t) {
  const Precision precision = w_t.precision(tape.precision());
  const Tensor<T> x = rounded_input(tape, unrounded, w_t);
  Rows<T> y(x->rows(), w_t.rows);
  if (precision == tape.precision()) {
    multiply(x->left(precision), w_t.forward(precision), y.view());
  } else {  // the packings of x are those of the other products
    LeftFactor<T> left;
    left.pack(x->view(), precision);
    multiply(left, w_t.forward(precision), y.view());
  }
  const Tensor<T> result = make_tensor(std::move(y), x->needs_gradient || w_t.trained());
  const bool shares = precision == tape.precision();
  tape.record(result, [x, &w_t, precision, shares](Value<T>& of) {
    const MatrixView<const T> dy = of.gradient.view();
    if (w_t.trained() && shares) {
      add_weight_gradient(dy, x->right(precision), precision, w_t);
    } else if (w_t.trained()) {
      RightFactor<T> right;
      right.pack(x->view(), precision);
      add_weight_gradient(dy, right, precision, w_t);
    }
    if (!x->needs_gradient) return;
    LeftFactor<T> left;
    left.pack(dy, precision);
    x->add_gradient(left, w_t.backward(precision));
  });
  if (w_t.adapter == nullptr) return result;
  Adapter<T>& adapter = *w_t.adapter;
  return add_scaled(tape, result, adapter.scale,
                    product(tape, product(tape, unrounded, adapter.a), adapter.b));
}

// t = x_P + x_R·D, dD = x_Rᵀ·dt, dx_P = dt, dx_R = dt·Dᵀ.
template <typename T>
Tensor<T> narrow(Tape<T>& tape, const Tensor<T>& x, PivotMap<T>& pivots) {
  if (pivots.empty()) return x;
  const Precision precision = tape.precision();
  Rows<T> t = columns_of<T>(x->view(), pivots.index);
  LeftFactor<T> others;
  others.pack(inputs_of_map<T>(x->view(), pivots).view(), precision);
  multiply(others, pivots.map.forward(precision), t.view(), true);
  const Tensor<T> result = make_tensor(std::move(t), x->needs_gradient || pivots.map.trained());
  tape.record(result, [x, &pivots, precision](Value<T>& of) {
    const Rows<T>& dt = of.gradient;
    if (pivots.map.trained()) {
      RightFactor<T> rest;
      rest.pack(inputs_of_map<T>(x->view(), pivots).view(), precision);
      add_weight_gradient<T>(dt.view(), rest, precision, pivots.map);
    }
    if (!x->needs_gradient) return;
    LeftFactor<T> left;
    left.pack(dt.view(), precision);
    Rows<T> of_others(dt.rows(), std::ssize(pivots.others));
    multiply(left, pivots.map.backward(precision), of_others.view());
    x->add_gradient(merged_columns(dt, pivots.index, of_others, pivots.others));
  });
  return result;
}

// y_P = z, y_R = z·C, dz = dy_P + dy_R·Cᵀ, dC = zᵀ·dy_R.
template <typename T>
Tensor<T> widen(Tape<T>& tape, const Tensor<T>& z, PivotMap<T>& pivots) {
  if (pivots.empty()) return z;
  const Precision precision = tape.precision();
  const Tensor<T> input = rounded_input(tape, z, pivots.map);
  Rows<T> rest(z->rows(), std::ssize(pivots.others));
  multiply(input->left(precision), pivots.map.forward(precision), rest.view());
  const Tensor<T> result = make_tensor(merged_columns(z->data, pivots.index, rest, pivots.others),
                                       z->needs_gradient || pivots.map.trained());
  tape.record(result, [z, input, &pivots, precision](Value<T>& of) {
    const Rows<T> of_rest = columns_of<T>(of.gradient.view(), pivots.others);
    if (pivots.map.trained()) {
      add_weight_gradient<T>(of_rest.view(), input->right(precision), precision, pivots.map);
    }
    if (!z->needs_gradient) return;
    LeftFactor<T> left;
    left.pack(of_rest.view(), precision);
    Rows<T> dz = columns_of<T>(of.gradient.view(), pivots.index);
    multiply(left, pivots.map.backward(precision), dz.view(), true);
    z->add_gradient(std::move(dz));
  });
  return result;
}

template <typename T>
Tensor<T> apply(Tape<T>& tape, const Tensor<T>& x, Linear<T>& linear) {
  const Tensor<T> y =
      linear.u.present()
          ? product(tape, product(tape, x, linear.u), linear.v)
          : widen(tape, product(tape, narrow(tape, x, linear.in), linear.w), linear.out);
  if (linear.bias.present()) add_bias(tape, y, linear.bias);
  return y;
}

#define NMM_INSTANTIATE(T)                                                       \
  template int64_t Linear<T>::out_features() const;                              \
  template void load(const ops::WeightView&, const std::string&, Parameter<T>&); \
  template void load(const ops::Pivots&, const std::string&, PivotMap<T>&);      \
  template void load(const ops::LinearWeight&, const std::string&, Linear<T>&);  \
  template void add_adapter(Parameter<T>&, int64_t, double, uint64_t);           \
  template Rows<T> change_of(const Adapter<T>&);                                 \
  template Tensor<T> product(Tape<T>&, const Tensor<T>&, Parameter<T>&);         \
  template Tensor<T> narrow(Tape<T>&, const Tensor<T>&, PivotMap<T>&);           \
  template Tensor<T> widen(Tape<T>&, const Tensor<T>&, PivotMap<T>&);            \
  template Tensor<T> apply(Tape<T>&, const Tensor<T>&, Linear<T>&);
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
