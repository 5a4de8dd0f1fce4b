#include "training/attention.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

// The queries of one block. Scores of a block are recomputed in the backward pass. Assumed: with
// three heads of a group and 512 positions, scores take 768 KiB.
constexpr int64_t kBlock = 128;
// Blocks see keys up to a multiple of this, which is the width of a panel of src/cpu.
constexpr int64_t kSeenUnit = cpu::kPanel;

// Replaces scores by P = e^(score − lse), and dP by dS = P ⊙ (dP − ρ). With a cap, dS is also
// multiplied by the derivative 1 − (score / cap)² of the cap.
template <typename T>
NMM_TRAINING_CLONES void score_gradients(T* scores, T* dp, T lse, T rho, T inverse_cap,
                                         int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T share = scores[i] * inverse_cap, p = exp_of(scores[i] - lse);
    dp[i] = p * (dp[i] - rho) * (T{1} - share * share);
    scores[i] = p;
  }
}

// The attention of one key-value head in one sequence.
template <typename T>
struct Head {
  const ops::AttentionShape& shape;
  const io::QueryTemperature& temperature;
  const Parameter<T>& sinks;
  Precision precision;
  int64_t first_row, length, head;

  int64_t group() const { return shape.num_attention_heads / shape.num_key_value_heads; }
  int64_t dim() const { return shape.head_dim; }
  // The columns of the head in k, v and their gradients.
  MatrixView<T> of_keys(const Rows<T>& k) const {
    return {k.row(first_row) + head * dim(), length, dim(), k.columns()};
  }
  // The factor of the query at a position.
  T scale(int64_t position) const {
    double scale =
        shape.score_scale != 0.0 ? shape.score_scale : 1.0 / std::sqrt(static_cast<double>(dim()));
    if (temperature.beta != 0.0) {
      scale *= 1.0 + temperature.beta *
                         std::log1p(static_cast<double>(position / temperature.original_context));
    }
    return static_cast<T>(scale);
  }
};

// Some neighbouring queries of all heads of a group. Row h · count + i of its matrices is query i
// of head h.
template <typename T>
struct Block {
  const Head<T>& of;
  int64_t first, count;

  int64_t rows() const { return of.group() * count; }
  int64_t position(int64_t row) const { return first + row % count; }
  // The keys that some query of the block sees, rounded up.
  int64_t seen() const {
    return std::min(of.length, (first + count + kSeenUnit - 1) / kSeenUnit * kSeenUnit);
  }
  // The keys [first, end) that a row sees.
  std::pair<int64_t, int64_t> visible(int64_t row) const {
    const int64_t end = position(row) + 1, window = of.shape.sliding_window;
    return {window == 0 ? 0 : std::max<int64_t>(0, end - window), end};
  }
  // The row of q, o and their gradients.
  T* row_of(const Rows<T>& x, int64_t row) const {
    return x.row(of.first_row + position(row)) + (of.head * of.group() + row / count) * of.dim();
  }
  // The logit of the row's sink, or null.
  const T* sink(int64_t row) const {
    return of.sinks.present() ? of.sinks.value.data() + of.head * of.group() + row / count
                              : nullptr;
  }
  // The index of the row's lse.
  size_t index(int64_t row) const {
    return static_cast<size_t>((of.first_row + position(row)) * of.shape.num_attention_heads +
                               of.head * of.group() + row / count);
  }
  Rows<T> gathered(const Rows<T>& x) const {
    Rows<T> out(rows(), of.dim());
    for (int64_t r = 0; r < rows(); ++r) std::copy_n(row_of(x, r), of.dim(), out.row(r));
    return out;
  }
  Rows<T> scaled_queries(const Rows<T>& q) const {
    Rows<T> out(rows(), of.dim());
    for (int64_t r = 0; r < rows(); ++r) {
      scaled(of.scale(position(r)), row_of(q, r), of.dim(), out.row(r));
    }
    return out;
  }
  // Returns the scores of scaled queries, with the cap. Those that no query sees have any value.
  Rows<T> scores(const Rows<T>& queries, const RightFactor<T>& keys_t) const {
    LeftFactor<T> left;
    left.pack(queries.view(), of.precision);
    Rows<T> scores(rows(), seen());
    multiply(left, keys_t, scores.view());
    if (of.shape.score_cap != 0.0) {
      for (int64_t r = 0; r < rows(); ++r) {
        const auto [begin, end] = visible(r);
        T* const seen_scores = scores.row(r) + begin;
        soft_cap(static_cast<T>(of.shape.score_cap), seen_scores, end - begin, seen_scores);
      }
    }
    return scores;
  }
  // Sets what a row does not see to zero.
  void clear_unseen(const Rows<T>& x, int64_t row) const {
    const auto [begin, end] = visible(row);
    std::fill_n(x.row(row), begin, T{0});
    std::fill(x.row(row) + end, x.row(row) + seen(), T{0});
  }
};

// Calls body(head) for every key-value head of every sequence, in parallel.
template <typename T, typename Body>
void for_each_head(const ops::AttentionShape& shape, const io::QueryTemperature& temperature,
                   const Parameter<T>& sinks, const Sequences& sequences, Precision precision,
                   const Body& body) {
  std::vector<int64_t> first_rows;
  int64_t rows = 0;
  for (const int64_t length : sequences.lengths) {
    first_rows.push_back(rows);
    rows += length;
  }
  const int64_t heads = shape.num_key_value_heads;
  parallel_for(std::ssize(first_rows) * heads, [&](int64_t task) {
    const auto sequence = static_cast<size_t>(task / heads);
    body(Head<T>{shape, temperature, sinks, precision, first_rows[sequence],
                 sequences.lengths[sequence], task % heads});
  });
}

// Calls body(block) for the blocks of a sequence, from the first to the last.
template <typename T, typename Body>
void for_each_block(const Head<T>& head, const Body& body) {
  for (int64_t first = 0; first < head.length; first += kBlock) {
    body(Block<T>{head, first, std::min(kBlock, head.length - first)});
  }
}

template <typename T>
void attend(const Head<T>& head, const Rows<T>& q, const Rows<T>& k, const Rows<T>& v,
            const Rows<T>& o, std::vector<T>& lse) {
  RightFactor<T> keys_t, values;
  keys_t.pack_transposed(head.of_keys(k), head.precision);
  values.pack(head.of_keys(v), head.precision);
  for_each_block(head, [&](const Block<T>& block) {
    Rows<T> p = block.scores(block.scaled_queries(q), keys_t);
    for (int64_t r = 0; r < block.rows(); ++r) {
      const auto [begin, end] = block.visible(r);
      T* const scores = p.row(r) + begin;
      T largest = largest_of(scores, end - begin);
      const T* const sink = block.sink(r);
      if (sink != nullptr) largest = std::max(largest, *sink);
      T sum = power_sum(scores, largest, end - begin);
      if (sink != nullptr) sum += exp_of(*sink - largest);
      powers(scores, largest, T{1} / sum, end - begin, scores);
      block.clear_unseen(p, r);
      lse[block.index(r)] = largest + std::log(sum);
    }
    LeftFactor<T> left;
    left.pack(p.view(), head.precision);
    Rows<T> out(block.rows(), head.dim());
    multiply(left, values, out.view());
    for (int64_t r = 0; r < block.rows(); ++r) {
      std::copy_n(out.row(r), head.dim(), block.row_of(o, r));
    }
  });
}

// The backward pass of one head reads and writes this.
template <typename T>
struct Gradients {
  const Rows<T>&q, &k, &v, &o;
  const std::vector<T>& lse;
  const Rows<T>&dout, &dq, &dk, &dv;
  // The parts of the rows in the gradients of the sinks, by the index of their lse.
  std::vector<T>& dsinks;
};

// Replaces scores by P and dP by dS.
template <typename T>
void to_gradients(const Block<T>& block, const Gradients<T>& of, const Rows<T>& scores,
                  const Rows<T>& dp) {
  const double cap = block.of.shape.score_cap;
  const T inverse_cap = cap == 0.0 ? T{0} : static_cast<T>(1.0 / cap);
  for (int64_t r = 0; r < block.rows(); ++r) {
    const auto [begin, end] = block.visible(r);
    const T rho = dot(block.row_of(of.dout, r), block.row_of(of.o, r), block.of.dim());
    if (const T* const sink = block.sink(r)) {
      const size_t index = block.index(r);
      of.dsinks[index] = -exp_of(*sink - of.lse[index]) * rho;
    }
    score_gradients(scores.row(r) + begin, dp.row(r) + begin, of.lse[block.index(r)], rho,
                    inverse_cap, end - begin);
    block.clear_unseen(scores, r);
    block.clear_unseen(dp, r);
  }
}

// S = c·q·kᵀ, P = e^(S − lse), dv = Pᵀ·do, dP = do·vᵀ, dS = P ⊙ (dP − ρ), dq = c·dS·k, dk =
// c·dSᵀ·q (arXiv 2205.14135).
template <typename T>
void attend_backward(const Head<T>& head, const Gradients<T>& of) {
  const Precision precision = head.precision;
  RightFactor<T> keys_t, keys, values_t;
  keys_t.pack_transposed(head.of_keys(of.k), precision);
  keys.pack(head.of_keys(of.k), precision);
  values_t.pack_transposed(head.of_keys(of.v), precision);
  const MatrixView<T> dk = head.of_keys(of.dk), dv = head.of_keys(of.dv);
  for_each_block(head, [&](const Block<T>& block) {
    const Rows<T> queries = block.scaled_queries(of.q), dout = block.gathered(of.dout);
    const Rows<T> p = block.scores(queries, keys_t);
    LeftFactor<T> left;
    RightFactor<T> right;
    Rows<T> ds(block.rows(), block.seen());
    left.pack(dout.view(), precision);
    multiply(left, values_t, ds.view());
    to_gradients(block, of, p, ds);
    left.pack_transposed(p.view(), precision);
    right.pack(dout.view(), precision);
    multiply(left, right, dv.row_range(0, block.seen()), true);
    left.pack_transposed(ds.view(), precision);
    right.pack(queries.view(), precision);
    multiply(left, right, dk.row_range(0, block.seen()), true);
    Rows<T> dq(block.rows(), head.dim());
    left.pack(ds.view(), precision);
    multiply(left, keys, dq.view());
    for (int64_t r = 0; r < block.rows(); ++r) {
      scaled(head.scale(block.position(r)), dq.row(r), head.dim(), block.row_of(of.dq, r));
    }
  });
}

// Adds the parts of all rows [rows, heads], in their order.
template <typename T>
void add_sink_gradients(const std::vector<T>& parts, Parameter<T>& sinks) {
  std::vector<double> sums(static_cast<size_t>(sinks.columns));
  for (size_t i = 0; i < parts.size(); ++i) sums[i % sums.size()] += static_cast<double>(parts[i]);
  for (size_t h = 0; h < sums.size(); ++h) sinks.gradient.data()[h] += static_cast<T>(sums[h]);
}

}  // namespace

template <typename T>
Tensor<T> attention(Tape<T>& tape, const ops::AttentionShape& shape,
                    const io::QueryTemperature& temperature, const Sequences& sequences,
                    const Tensor<T>& q, const Tensor<T>& k, const Tensor<T>& v,
                    Parameter<T>& sinks) {
  const Precision precision = tape.precision();
  NMM_CHECK(!sinks.present() || sinks.columns == shape.num_attention_heads);
  Rows<T> o(q->rows(), q->columns());
  std::vector<T> lse(static_cast<size_t>(q->rows() * shape.num_attention_heads));
  for_each_head<T>(shape, temperature, sinks, sequences, precision,
                   [&](const Head<T>& head) { attend(head, q->data, k->data, v->data, o, lse); });
  const Tensor<T> result = make_tensor(
      std::move(o), q->needs_gradient || k->needs_gradient || v->needs_gradient || sinks.trained());
  tape.record(result, [=, &sinks, lse = std::move(lse)](Value<T>& of) {
    std::vector<T> dsinks(sinks.present() ? lse.size() : 0);
    Rows<T> dq(q->rows(), q->columns()), dk(k->rows(), k->columns()), dv(v->rows(), v->columns());
    clear(dk.view());
    clear(dv.view());
    const Gradients<T> gradients = {q->data,     k->data, v->data, of.data, lse,
                                    of.gradient, dq,      dk,      dv,      dsinks};
    for_each_head<T>(shape, temperature, sinks, sequences, precision,
                     [&](const Head<T>& head) { attend_backward(head, gradients); });
    if (sinks.trained()) add_sink_gradients(dsinks, sinks);
    q->add_gradient(std::move(dq));
    k->add_gradient(std::move(dk));
    v->add_gradient(std::move(dv));
  });
  return result;
}

template Tensor<float> attention(Tape<float>&, const ops::AttentionShape&,
                                 const io::QueryTemperature&, const Sequences&,
                                 const Tensor<float>&, const Tensor<float>&, const Tensor<float>&,
                                 Parameter<float>&);
template Tensor<double> attention(Tape<double>&, const ops::AttentionShape&,
                                  const io::QueryTemperature&, const Sequences&,
                                  const Tensor<double>&, const Tensor<double>&,
                                  const Tensor<double>&, Parameter<double>&);

}  // namespace neuronmm::training
