#include "ops/reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"

namespace neuronmm::ops {
namespace {

// A matrix of intermediate results, which stay in fp64. Only the outputs of the interface are
// rounded to fp32. Other backends are compared with this one, so it is written to be read and not
// to be fast.
struct DoubleMatrix {
  DoubleMatrix(int64_t r, int64_t c)
      : rows(r), columns(c), values(static_cast<size_t>(rows * columns)) {}
  double* row(int64_t i) { return values.data() + i * columns; }
  const double* row(int64_t i) const { return values.data() + i * columns; }

  int64_t rows, columns;
  std::vector<double> values;
};

DoubleMatrix widen(ConstMatrixView x) {
  DoubleMatrix wide(x.rows, x.columns);
  for (int64_t i = 0; i < x.rows; ++i) std::copy_n(x.row(i), x.columns, wide.row(i));
  return wide;
}

void narrow(const DoubleMatrix& x, MutableMatrixView y) {
  NMM_CHECK(x.rows == y.rows && x.columns == y.columns);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) y.row(i)[j] = static_cast<float>(x.row(i)[j]);
  }
}

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// The number of multiply-adds below which one thread does all the work. Waking other threads costs
// microseconds, or a time slice if other programs keep the cores busy. Assumed.
constexpr int64_t kSerialWork = 200'000;

// Calls body(first, last) for ranges that together are [0, count). `work` is the number of
// multiply-adds of all of them.
template <typename Body>
void for_ranges(int64_t count, int64_t work, const Body& body) {
  if (work < kSerialWork) {
    body(0, count);
  } else {
    parallel_ranges(count, body);
  }
}

// Returns x[M,K] · w_t[N,K]^T.
DoubleMatrix multiply(const DoubleMatrix& x, const WeightView& w_t) {
  NMM_CHECK(x.columns == w_t.columns());
  DoubleMatrix y(x.rows, w_t.rows());
  for_ranges(w_t.rows(), x.rows * w_t.size(), [&](int64_t first, int64_t last) {
    // Every column of W is widened to fp64 once for all rows of x.
    std::vector<double> weights(static_cast<size_t>(x.columns));
    for (int64_t n = first; n < last; ++n) {
      to_doubles(w_t, n * x.columns, x.columns, weights.data());
      for (int64_t m = 0; m < x.rows; ++m) y.row(m)[n] = dot(x.row(m), weights.data(), x.columns);
    }
  });
  return y;
}

DoubleMatrix columns_of(const DoubleMatrix& x, const std::vector<int32_t>& columns) {
  DoubleMatrix out(x.rows, std::ssize(columns));
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < out.columns; ++j) out.row(i)[j] = x.row(i)[columns[j]];
  }
  return out;
}

// Returns t = x[pivots] + map_t · x[others], or x if there are no pivots.
DoubleMatrix narrow_input(const DoubleMatrix& x, const Pivots& pivots) {
  if (pivots.empty()) return x;
  DoubleMatrix t = multiply(columns_of(x, non_pivots(pivots)), pivots.map_t);
  const DoubleMatrix kept = columns_of(x, pivots.index);
  for (size_t i = 0; i < t.values.size(); ++i) t.values[i] += kept.values[i];
  return t;
}

// Returns y with y[pivots] = z and y[others] = map_t · z, or z if there are no pivots.
DoubleMatrix widen_output(const DoubleMatrix& z, const Pivots& pivots) {
  if (pivots.empty()) return z;
  const DoubleMatrix rest = multiply(z, pivots.map_t);
  const std::vector<int32_t> other_columns = non_pivots(pivots);
  DoubleMatrix y(z.rows, pivots.features());
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < z.columns; ++j) y.row(i)[pivots.index[j]] = z.row(i)[j];
    for (int64_t j = 0; j < rest.columns; ++j) y.row(i)[other_columns[j]] = rest.row(i)[j];
  }
  return y;
}

// Applies a linear layer of any form. A low-rank layer is two products, of which the first gives
// X·U [M, r].
DoubleMatrix multiply(const DoubleMatrix& x, const LinearWeight& weight) {
  DoubleMatrix y = weight.low_rank()
                       ? multiply(multiply(x, weight.u_t), weight.v_t)
                       : widen_output(multiply(narrow_input(x, weight.in), weight.w_t), weight.out);
  if (weight.bias.empty()) return y;
  std::vector<double> bias(static_cast<size_t>(y.columns));
  to_doubles(weight.bias, 0, y.columns, bias.data());
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t j = 0; j < y.columns; ++j) y.row(i)[j] += bias[static_cast<size_t>(j)];
  }
  return y;
}

// A linear layer whose weights stay as the checkpoint has them. Every use widens them to fp64,
// which is slow and exact.
class ReferenceLinear final : public Linear {
 public:
  explicit ReferenceLinear(const LinearWeight& weight) : weight_(weight) {}
  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    narrow(multiply(widen(x), weight_), y);
  }

 private:
  LinearWeight weight_;
};

// An MLP whose inner values gated(X·gate, X·up) stay in fp64. Only Y is rounded.
class ReferenceMlp final : public Mlp {
 public:
  explicit ReferenceMlp(const MlpWeight& weight) : weight_(weight) {}
  void apply(ConstMatrixView x, MutableMatrixView y) const override {
    const DoubleMatrix input = narrow_input(widen(x), weight_.in);
    DoubleMatrix inner = multiply(input, weight_.gate);
    const DoubleMatrix up = multiply(input, weight_.up);
    for (size_t i = 0; i < inner.values.size(); ++i)
      inner.values[i] = gated(weight_.activation, weight_.clamp, inner.values[i], up.values[i]);
    narrow(multiply(inner, weight_.down), y);
  }

 private:
  MlpWeight weight_;
};

// A cache that stores keys and values in fp32 without rounding. For every layer, a block has a
// matrix [kKvBlock, kv_heads * head_dim] of keys, followed by one of values.
class ReferenceKvCache final : public KvCache {
 public:
  explicit ReferenceKvCache(const KvCacheShape& shape)
      : KvCache(shape, shape.num_layers * 2 * kKvBlock * width(shape)) {}
  float* key(int64_t layer, int64_t position) const { return row(2 * layer, position); }
  float* value(int64_t layer, int64_t position) const { return row(2 * layer + 1, position); }

 private:
  static int64_t width(const KvCacheShape& shape) {
    return shape.num_key_value_heads * shape.head_dim;
  }
  float* row(int64_t matrix, int64_t position) const {
    return reinterpret_cast<float*>(block_memory()[position / kKvBlock]) +
           (matrix * kKvBlock + position % kKvBlock) * width(shape());
  }
};

// Computes y = softmax(cap(scale * q · K[first..last]^T)) · V[first..last] for one query and one
// key-value head. `offset` is the first column of that head. `sink` is the query head's sink, or
// null.
void attend(const AttentionShape& shape, const float* sink, const float* q,
            const ReferenceKvCache& cache, int64_t layer, int64_t offset, int64_t first,
            int64_t last, float* y) {
  const int64_t head_dim = cache.shape().head_dim;
  std::vector<double> weights;
  for (int64_t j = first; j <= last; ++j) {
    const float* const key = cache.key(layer, j) + offset;
    double score = 0.0;
    for (int64_t d = 0; d < head_dim; ++d)
      score += static_cast<double>(q[d]) * static_cast<double>(key[d]);
    score = shape.score_scale != 0.0 ? shape.score_scale * score
                                     : score / std::sqrt(static_cast<double>(head_dim));
    const double cap = shape.score_cap;
    weights.push_back(cap == 0.0 ? score : cap * std::tanh(score / cap));
  }
  // Subtracting the largest score keeps the exponentials from overflowing, and does not change the
  // quotient.
  double largest = *std::max_element(weights.begin(), weights.end());
  if (sink != nullptr) largest = std::max(largest, double{*sink});
  double total = sink == nullptr ? 0.0 : std::exp(*sink - largest);
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  std::vector<double> sums(static_cast<size_t>(head_dim));
  for (int64_t j = first; j <= last; ++j) {
    const float* const value = cache.value(layer, j) + offset;
    for (int64_t d = 0; d < head_dim; ++d)
      sums[static_cast<size_t>(d)] +=
          weights[static_cast<size_t>(j - first)] * static_cast<double>(value[d]);
  }
  for (int64_t d = 0; d < head_dim; ++d)
    y[d] = static_cast<float>(sums[static_cast<size_t>(d)] / total);
}

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }

  std::unique_ptr<Linear> make_linear(const LinearWeight& weight) const override {
    return std::make_unique<ReferenceLinear>(weight);
  }
  std::unique_ptr<Mlp> make_mlp(const MlpWeight& weight) const override {
    return std::make_unique<ReferenceMlp>(weight);
  }
  std::unique_ptr<KvCache> make_kv_cache(const KvCacheShape& shape) const override {
    return std::make_unique<ReferenceKvCache>(shape);
  }

  void rms_norm(ConstMatrixView x, std::span<const float> weight, float eps,
                MutableMatrixView y) const override {
    NMM_CHECK(static_cast<int64_t>(weight.size()) == x.columns);
    for (int64_t i = 0; i < x.rows; ++i) {
      double squares = 0.0;
      for (int64_t j = 0; j < x.columns; ++j)
        squares += static_cast<double>(x.row(i)[j]) * static_cast<double>(x.row(i)[j]);
      const double root =
          std::sqrt(squares / static_cast<double>(x.columns) + static_cast<double>(eps));
      for (int64_t j = 0; j < x.columns; ++j) {
        y.row(i)[j] = static_cast<float>(static_cast<double>(x.row(i)[j]) / root *
                                         static_cast<double>(weight[static_cast<size_t>(j)]));
      }
    }
  }

  void rope(MutableMatrixView x, int64_t head_dim, std::span<const int64_t> positions,
            const RotaryEmbedding& rotary) const override {
    const int64_t half = std::ssize(rotary.inverse_frequencies);
    NMM_CHECK(2 * half <= head_dim && std::ssize(positions) == x.rows && x.columns % head_dim == 0);
    // All heads of a row have the same angles, so that cosine and sine are computed once.
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < half; ++j) {
        const double angle =
            static_cast<double>(positions[static_cast<size_t>(i)]) *
            static_cast<double>(rotary.inverse_frequencies[static_cast<size_t>(j)]);
        const double scale = rotary.attention_factor;
        const double cosine = scale * std::cos(angle), sine = scale * std::sin(angle);
        for (float* head = x.row(i); head < x.row(i) + x.columns; head += head_dim) {
          const double a = head[j], b = head[j + half];
          head[j] = static_cast<float>(a * cosine - b * sine);
          head[j + half] = static_cast<float>(b * cosine + a * sine);
        }
      }
    }
  }

  void attention(const AttentionShape& shape, int64_t layer, ConstMatrixView q, ConstMatrixView k,
                 ConstMatrixView v, Batch batch, MutableMatrixView y) const override {
    int64_t first = 0;
    for (const auto& [cache, rows] : batch) {
      attend_sequence(shape, layer, q.row_range(first, rows), k.row_range(first, rows),
                      v.row_range(first, rows), *cache, y.row_range(first, rows));
      first += rows;
    }
    NMM_CHECK(first == q.rows);
  }

  void add(ConstMatrixView x, MutableMatrixView y) const override {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.columns; ++j) y.row(i)[j] += x.row(i)[j];
    }
  }

 private:
  // Stores all new keys and values, and then lets every query attend to the positions up to its
  // own. A new token thus sees the new tokens before it, but not those after it.
  static void attend_sequence(const AttentionShape& shape, int64_t layer, ConstMatrixView q,
                              ConstMatrixView k, ConstMatrixView v, KvCache& cache,
                              MutableMatrixView y) {
    auto& store = static_cast<ReferenceKvCache&>(cache);
    const int64_t first_position = cache.length();
    NMM_CHECK(first_position + q.rows <= cache.shape().capacity_tokens);
    cache.grow(first_position + q.rows);
    for (int64_t i = 0; i < q.rows; ++i) {
      std::copy_n(k.row(i), k.columns, store.key(layer, first_position + i));
      std::copy_n(v.row(i), v.columns, store.value(layer, first_position + i));
    }
    // The number of query heads that share one key-value head.
    const int64_t group = shape.num_attention_heads / shape.num_key_value_heads;
    const int64_t work = q.rows * q.columns * 2 * (first_position + q.rows);
    for_ranges(q.rows * shape.num_attention_heads, work, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t i = index / shape.num_attention_heads;
        const int64_t head = index % shape.num_attention_heads;
        const int64_t last = first_position + i, offset = head / group * shape.head_dim;
        const int64_t first =
            shape.sliding_window == 0 ? 0 : std::max<int64_t>(0, last - shape.sliding_window + 1);
        const float* const sink = shape.sinks.empty() ? nullptr : &shape.sinks.at(head);
        attend(shape, sink, q.row(i) + head * shape.head_dim, store, layer, offset, first, last,
               y.row(i) + head * shape.head_dim);
      }
    });
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace neuronmm::ops
