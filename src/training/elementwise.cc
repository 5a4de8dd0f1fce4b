#include "training/elementwise.h"

#include <algorithm>
#include <numbers>

#include "base/pieces.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

// The costs of an element, in multiply-adds on data in cache. Assumed.
constexpr int64_t kGateWork = 20, kAddWork = 4;
// The columns of a table whose gradients a thread adds at a time.
constexpr int64_t kColumns = 64;

// The logistic function σ(t(z)) that times z is the activation, and the derivative of t (see
// base/activation.h).
template <typename T>
struct Logistic {
  T sigma, slope_of_t;
};
template <Activation kActivation, typename T>
[[gnu::always_inline]] inline Logistic<T> logistic(T z) {
  if constexpr (kActivation == Activation::kSilu) {
    return {T{1} / (T{1} + exp_of(-z)), T{1}};
  } else {
    constexpr T kSlope = static_cast<T>(2.0 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    constexpr T kCubic = static_cast<T>(0.044715);
    const T t = kSlope * z * (T{1} + kCubic * z * z);
    return {T{1} / (T{1} + exp_of(-t)), kSlope * (T{1} + T{3} * kCubic * z * z)};
  }
}

template <Activation kActivation, typename T>
NMM_TRAINING_CLONES void gate_loop(const T* gate, const T* up, int64_t count, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = gate[i] * logistic<kActivation>(gate[i]).sigma * up[i];
  }
}

// dup = dy·z·σ, dgate = dy·up·(σ + z·σ·(1 − σ)·t').
template <Activation kActivation, typename T>
NMM_TRAINING_CLONES void gate_backward_loop(const T* gate, const T* up, const T* dy, int64_t count,
                                            T* dgate, T* dup) {
  for (int64_t i = 0; i < count; ++i) {
    const T z = gate[i];
    const Logistic<T> of = logistic<kActivation>(z);
    dup[i] = dy[i] * z * of.sigma;
    dgate[i] = dy[i] * up[i] * of.sigma * (T{1} + z * (T{1} - of.sigma) * of.slope_of_t);
  }
}

// y = (u + 1)·g·σ(α·g), where g is gate, at most `limit`, and u is up in [-limit, limit].
template <typename T>
NMM_TRAINING_CLONES void clamped_loop(const T* gate, const T* up, T limit, T alpha, int64_t count,
                                      T* y) {
  for (int64_t i = 0; i < count; ++i) {
    const T g = gate[i] < limit ? gate[i] : limit;
    T u = up[i] < limit ? up[i] : limit;
    u = u > -limit ? u : -limit;
    y[i] = (u + T{1}) * g / (T{1} + exp_of(-alpha * g));
  }
}

// dup = dy·g·σ, dgate = dy·(u + 1)·σ·(1 + α·g·(1 − σ)), and 0 beyond a limit.
template <typename T>
NMM_TRAINING_CLONES void clamped_backward_loop(const T* gate, const T* up, T limit, T alpha,
                                               const T* dy, int64_t count, T* dgate, T* dup) {
  for (int64_t i = 0; i < count; ++i) {
    const T g = gate[i] < limit ? gate[i] : limit;
    T u = up[i] < limit ? up[i] : limit;
    u = u > -limit ? u : -limit;
    const T sigma = T{1} / (T{1} + exp_of(-alpha * g));
    const T of_up = dy[i] * g * sigma;
    const T of_gate = dy[i] * (u + T{1}) * sigma * (T{1} + alpha * g * (T{1} - sigma));
    dup[i] = u == up[i] ? of_up : T{0};
    dgate[i] = g == gate[i] ? of_gate : T{0};
  }
}

template <typename T>
NMM_TRAINING_CLONES void limit_loop(const T* x, T limit, int64_t count, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    const T below = x[i] > limit ? limit : x[i];  // a NaN stays one
    y[i] = below < -limit ? -limit : below;
  }
}

template <typename T>
NMM_TRAINING_CLONES void limit_backward_loop(const T* x, const T* y, const T* dy, int64_t count,
                                             T* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = x[i] == y[i] ? dy[i] : T{0};
}

// Calls body with the activation as a constant.
template <typename Body>
void with_activation(Activation activation, const Body& body) {
  if (activation == Activation::kSilu) {
    body.template operator()<Activation::kSilu>();
  } else {
    body.template operator()<Activation::kGeluTanh>();
  }
}

}  // namespace

template <typename T>
Tensor<T> limited(Tape<T>& tape, const Tensor<T>& x, double limit) {
  if (limit == 0.0) return x;
  Rows<T> y(x->rows(), x->columns());
  for_each_piece(y.size(), kAddWork, [&](int64_t first, int64_t last) {
    limit_loop(x->data.data() + first, static_cast<T>(limit), last - first, y.data() + first);
  });
  // RoPE changes the result in place, so that the backward pass limits x again.
  const Tensor<T> result = make_tensor(std::move(y), x->needs_gradient);
  tape.record(result, [x, limit](Value<T>& of) {
    Rows<T> dx(of.rows(), of.columns()), again(of.rows(), of.columns());
    for_each_piece(dx.size(), kAddWork, [&](int64_t first, int64_t last) {
      const T* const from = x->data.data() + first;
      limit_loop(from, static_cast<T>(limit), last - first, again.data() + first);
      limit_backward_loop(from, again.data() + first, of.gradient.data() + first, last - first,
                          dx.data() + first);
    });
    x->add_gradient(std::move(dx));
  });
  return result;
}

namespace {

template <typename T>
Tensor<T> clamped_swiglu(Tape<T>& tape, const SwigluClamp& clamp, const Tensor<T>& gate,
                         const Tensor<T>& up) {
  const T limit = clamp.limit, alpha = clamp.alpha;
  Rows<T> y(gate->rows(), gate->columns());
  for_each_piece(y.size(), kGateWork, [&](int64_t first, int64_t last) {
    clamped_loop(gate->data.data() + first, up->data.data() + first, limit, alpha, last - first,
                 y.data() + first);
  });
  const Tensor<T> result = make_tensor(std::move(y), gate->needs_gradient || up->needs_gradient);
  tape.record(result, [limit, alpha, gate, up](Value<T>& of) {
    Rows<T> dgate(of.rows(), of.columns()), dup(of.rows(), of.columns());
    for_each_piece(dup.size(), kGateWork, [&](int64_t first, int64_t last) {
      clamped_backward_loop(gate->data.data() + first, up->data.data() + first, limit, alpha,
                            of.gradient.data() + first, last - first, dgate.data() + first,
                            dup.data() + first);
    });
    gate->add_gradient(std::move(dgate));
    up->add_gradient(std::move(dup));
  });
  return result;
}

}  // namespace

template <typename T>
Tensor<T> gated(Tape<T>& tape, Activation activation, const Tensor<T>& gate, const Tensor<T>& up,
                const SwigluClamp& clamp) {
  if (activation == Activation::kClampedSwiglu) return clamped_swiglu(tape, clamp, gate, up);
  Rows<T> y(gate->rows(), gate->columns());
  with_activation(activation, [&]<Activation kActivation>() {
    for_each_piece(y.size(), kGateWork, [&](int64_t first, int64_t last) {
      gate_loop<kActivation>(gate->data.data() + first, up->data.data() + first, last - first,
                             y.data() + first);
    });
  });
  const Tensor<T> result = make_tensor(std::move(y), gate->needs_gradient || up->needs_gradient);
  tape.record(result, [activation, gate, up](Value<T>& of) {
    const T* const dy = of.gradient.data();
    Rows<T> dgate(of.rows(), of.columns()), dup(of.rows(), of.columns());
    with_activation(activation, [&]<Activation kActivation>() {
      for_each_piece(dup.size(), kGateWork, [&](int64_t first, int64_t last) {
        gate_backward_loop<kActivation>(gate->data.data() + first, up->data.data() + first,
                                        dy + first, last - first, dgate.data() + first,
                                        dup.data() + first);
      });
    });
    gate->add_gradient(std::move(dgate));
    up->add_gradient(std::move(dup));
  });
  return result;
}

template <typename T>
Tensor<T> add_scaled(Tape<T>& tape, const Tensor<T>& x, double scale, const Tensor<T>& change) {
  Rows<T> y(x->rows(), x->columns());
  for_each_piece(y.size(), kAddWork, [&](int64_t first, int64_t last) {
    add_scaled(x->data.data() + first, static_cast<T>(scale), change->data.data() + first,
               last - first, y.data() + first);
  });
  const Tensor<T> result = make_tensor(std::move(y), x->needs_gradient || change->needs_gradient);
  tape.record(result, [x, scale, change](Value<T>& of) {
    Rows<T>& dy = of.gradient;
    if (change->needs_gradient) {
      Rows<T> part(dy.rows(), dy.columns());
      for_each_piece(part.size(), kAddWork, [&](int64_t first, int64_t last) {
        scaled(static_cast<T>(scale), dy.data() + first, last - first, part.data() + first);
      });
      change->add_gradient(std::move(part));
    }
    x->add_gradient(std::move(dy));
  });
  return result;
}

template <typename T>
Tensor<T> lookup(Tape<T>& tape, Parameter<T>& table, std::span<const text::TokenId> tokens,
                 double scale) {
  Rows<T> x(std::ssize(tokens), table.columns);
  for (int64_t i = 0; i < x.rows(); ++i) {
    const text::TokenId token = tokens[static_cast<size_t>(i)];
    NMM_CHECK(token >= 0 && token < table.rows);
    scaled(static_cast<T>(scale), table.value.row(token), table.columns, x.row(i));
  }
  const Tensor<T> result = make_tensor(std::move(x), table.trained());
  std::vector<text::TokenId> ids(tokens.begin(), tokens.end());
  tape.record(result, [&table, ids = std::move(ids), scale](Value<T>& of) {
    // A token may occur twice, so that threads divide the columns and not the tokens.
    parallel_for((table.columns + kColumns - 1) / kColumns, [&](int64_t piece) {
      const int64_t first = piece * kColumns, count = std::min(kColumns, table.columns - first);
      for (int64_t i = 0; i < of.rows(); ++i) {
        T* const sums = table.gradient.row(ids[static_cast<size_t>(i)]) + first;
        add_scaled(sums, static_cast<T>(scale), of.gradient.row(i) + first, count, sums);
      }
    });
  });
  return result;
}

template <typename T>
Tensor<T> take_rows(Tape<T>& tape, const Tensor<T>& x, std::span<const int64_t> rows) {
  Rows<T> taken(std::ssize(rows), x->columns());
  for (int64_t i = 0; i < taken.rows(); ++i) {
    std::copy_n(x->data.row(rows[static_cast<size_t>(i)]), x->columns(), taken.row(i));
  }
  const Tensor<T> result = make_tensor(std::move(taken), x->needs_gradient);
  tape.record(result, [x, kept = std::vector<int64_t>(rows.begin(), rows.end())](Value<T>& of) {
    x->add_gradient(kept, of.gradient);
  });
  return result;
}

#define NMM_INSTANTIATE(T)                                                                    \
  template Tensor<T> gated(Tape<T>&, Activation, const Tensor<T>&, const Tensor<T>&,          \
                           const SwigluClamp&);                                               \
  template Tensor<T> limited(Tape<T>&, const Tensor<T>&, double);                             \
  template Tensor<T> add_scaled(Tape<T>&, const Tensor<T>&, double, const Tensor<T>&);        \
  template Tensor<T> lookup(Tape<T>&, Parameter<T>&, std::span<const text::TokenId>, double); \
  template Tensor<T> take_rows(Tape<T>&, const Tensor<T>&, std::span<const int64_t>);
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
