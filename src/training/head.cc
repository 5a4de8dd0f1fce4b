#include "training/head.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "base/pieces.h"
#include "training/linear.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

// The rows whose logits exist together. Assumed: fewer rows would read the projection too often,
// and more would take more memory.
constexpr int64_t kRows = 256;
// The terms that are summed in fp32, which loses little. The sums of the pieces are added in fp64.
constexpr int64_t kPiece = 2048;
constexpr int64_t kCapWork = 20;  // of an element, in multiply-adds. Assumed.

// Returns Σ e^b · (b − a), where a and b are the logits of student and teacher less the largest.
template <typename T>
NMM_TRAINING_CLONES T difference_sum(const T* x, T largest, const T* teacher, T largest_teacher,
                                     int64_t count) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const T b = teacher[i] - largest_teacher;
    sum += exp_of(b) * (b - (x[i] - largest));
  }
  return sum;
}

template <typename T>
NMM_TRAINING_CLONES void subtract_probabilities(const T* teacher, T largest, T share, T* x,
                                                int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] -= share * exp_of(teacher[i] - largest);
}

template <typename T>
NMM_TRAINING_CLONES void cap_backward_loop(T cap, const T* y, const T* dy, int64_t count, T* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const T share = y[i] / cap;
    dx[i] = dy[i] * (T{1} - share * share);
  }
}

// Returns Σ term(first, count) over the pieces of [0, count), in fp64.
template <typename Term>
double sum_of_pieces(int64_t count, const Term& term) {
  double sum = 0.0;
  for (int64_t first = 0; first < count; first += kPiece) {
    sum += static_cast<double>(term(first, std::min(kPiece, count - first)));
  }
  return sum;
}

// The largest logit of a row, and the sum of e^(logit − largest).
template <typename T>
struct LogSum {
  T largest;
  double sum;

  LogSum(const T* x, int64_t count)
      : largest(largest_of(x, count)), sum(sum_of_pieces(count, [&](int64_t first, int64_t n) {
          return power_sum(x + first, largest, n);
        })) {}
  double value() const { return static_cast<double>(largest) + std::log(sum); }
};

// Returns −log p(label) and turns the logits into scale · (p − 1[label]) if asked to.
template <typename T>
double label_loss(T* x, int64_t count, int64_t label, double scale, bool with_gradient) {
  const LogSum<T> all(x, count);
  const double loss = all.value() - static_cast<double>(x[label]);
  if (!with_gradient) return loss;
  powers(x, all.largest, static_cast<T>(scale / all.sum), count, x);
  x[label] = static_cast<T>(scale * std::expm1(-loss));  // p − 1 without cancellation
  return loss;
}

// Returns Σ w·log(w / p), and turns the logits into scale · (p − w) if asked to.
template <typename T>
double divergence_of(T* x, const T* teacher, int64_t count, double scale, bool with_gradient) {
  const LogSum<T> own(x, count), other(teacher, count);
  const double difference = sum_of_pieces(count, [&](int64_t first, int64_t n) {
    return difference_sum(x + first, own.largest, teacher + first, other.largest, n);
  });
  if (with_gradient) {
    powers(x, own.largest, static_cast<T>(scale / own.sum), count, x);
    subtract_probabilities(teacher, other.largest, static_cast<T>(scale / other.sum), x, count);
  }
  return difference / other.sum - std::log(other.sum) + std::log(own.sum);
}

// Returns a number in [0, 1) that depends on all three arguments (SplitMix64's finalizer,
// doi:10.1145/2714064.2660195).
double uniform(uint64_t seed, uint64_t sequence, uint64_t position) {
  uint64_t bits = seed;
  for (const uint64_t next : {sequence, position}) {
    bits += 0x9e3779b97f4a7c15u * (next + 1);
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
  }
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Returns the label at which the sum of probabilities first exceeds the share `drawn` of all. First
// the piece with the label is found, then the label.
template <typename T>
int64_t label_at(const T* x, int64_t count, double drawn) {
  const LogSum<T> all(x, count);
  double rest = drawn * all.sum;
  for (int64_t first = 0;; first += kPiece) {
    const int64_t end = std::min(count, first + kPiece);
    const auto piece = static_cast<double>(power_sum(x + first, all.largest, end - first));
    if (rest >= piece && end < count) {
      rest -= piece;
      continue;
    }
    for (int64_t i = first; i < end; ++i) {
      rest -= static_cast<double>(exp_of(x[i] - all.largest));
      if (rest < 0.0) return i;
    }
    return end - 1;  // the two sums of the piece may differ by rounding
  }
}

// Makes the logits of some rows at a time and calls loss(row of hidden, logits, with_gradient) for
// each row, in parallel. It returns the row's loss and turns the logits into their gradient.
template <typename T, typename Loss>
double sum_over_rows(const Head<T>& head, MatrixView<const T> hidden, Precision precision,
                     Rows<T>* gradient, const std::function<void(int64_t, int64_t)>& begin_block,
                     const Loss& loss) {
  double sum = 0.0;
  if (gradient != nullptr) *gradient = Rows<T>(hidden.rows, hidden.columns);
  for (int64_t first = 0; first < hidden.rows; first += kRows) {
    const int64_t count = std::min(kRows, hidden.rows - first);
    if (begin_block) begin_block(first, count);
    Tape<T> tape(precision, gradient != nullptr);
    const Tensor<T> x = make_tensor(copy_of(hidden.row_range(first, count)), gradient != nullptr);
    const Tensor<T> z = head.logits(tape, x);
    // The cap needs the logits again, so that their gradient has memory of its own then.
    z->gradient = head.cap == 0.0 ? std::move(z->data) : copy_of<T>(z->view());
    const Rows<T>& logits = z->gradient;
    std::vector<double> losses(static_cast<size_t>(count));
    parallel_for(count, [&](int64_t i) {
      losses[static_cast<size_t>(i)] =
          loss(first + i, logits.row(i), logits.columns(), gradient != nullptr);
    });
    sum += std::accumulate(losses.begin(), losses.end(), 0.0);
    if (gradient == nullptr) continue;
    tape.read_backwards();
    std::copy_n(x->gradient.data(), x->gradient.size(), gradient->row(first));
  }
  return sum;
}

template <typename T>
Tensor<T> capped(Tape<T>& tape, const Tensor<T>& x, double cap) {
  if (cap == 0.0) return x;
  Rows<T> y(x->rows(), x->columns());
  for_each_piece(y.size(), kCapWork, [&](int64_t first, int64_t last) {
    soft_cap(static_cast<T>(cap), x->data.data() + first, last - first, y.data() + first);
  });
  const Tensor<T> result = make_tensor(std::move(y), x->needs_gradient);
  tape.record(result, [x, cap](Value<T>& of) {
    Rows<T> dx(of.rows(), of.columns());
    for_each_piece(dx.size(), kCapWork, [&](int64_t first, int64_t last) {
      cap_backward_loop(static_cast<T>(cap), of.data.data() + first, of.gradient.data() + first,
                        last - first, dx.data() + first);
    });
    x->add_gradient(std::move(dx));
  });
  return result;
}

}  // namespace

template <typename T>
Head<T>::Head(const io::ModelConfig& config, Parameter<T>& norm_gain, Parameter<T>& matrix)
    : norm(&norm_gain),
      projection(&matrix),
      norm_settings{config.rms_norm_eps, config.gain_offset, 1.0 / config.logit_divisor},
      cap(config.logit_cap) {}

template <typename T>
Tensor<T> Head<T>::logits(Tape<T>& tape, const Tensor<T>& x) const {
  const Tensor<T> normed = rms_norm(tape, x, *norm, norm_settings);
  return capped(tape, product(tape, normed, *projection), cap);
}

template <typename T>
double cross_entropy(const Head<T>& head, MatrixView<const T> hidden,
                     std::span<const text::TokenId> labels, Precision precision, double scale,
                     Rows<T>* gradient) {
  return sum_over_rows<T>(head, hidden, precision, gradient, {},
                          [&](int64_t row, T* x, int64_t count, bool with_gradient) {
                            const int64_t label = labels[static_cast<size_t>(row)];
                            return label_loss(x, count, label, scale, with_gradient);
                          });
}

template <typename T>
double divergence(const Head<T>& head, MatrixView<const T> hidden, const Head<T>& teacher,
                  MatrixView<const T> teacher_hidden, Precision precision, double scale,
                  Rows<T>* gradient) {
  Tensor<T> targets;
  int64_t first_target = 0;
  const auto begin_block = [&](int64_t first, int64_t count) {
    Tape<T> silent(precision, false);
    targets = nullptr;  // its memory is used again
    targets = teacher.logits(silent, make_tensor(copy_of(teacher_hidden.row_range(first, count))));
    first_target = first;
  };
  return sum_over_rows<T>(head, hidden, precision, gradient, begin_block,
                          [&](int64_t row, T* x, int64_t count, bool with_gradient) {
                            return divergence_of(x, targets->data.row(row - first_target), count,
                                                 scale, with_gradient);
                          });
}

template <typename T>
double own_label_loss(const Head<T>& head, MatrixView<const T> hidden, const LabelSeed& seed,
                      Precision precision, std::vector<text::TokenId>& labels, Rows<T>* gradient) {
  const size_t before = labels.size();
  labels.resize(before + static_cast<size_t>(hidden.rows));
  return sum_over_rows<T>(
      head, hidden, precision, gradient, {},
      [&](int64_t row, T* x, int64_t count, bool with_gradient) {
        const double drawn =
            uniform(seed.seed, static_cast<uint64_t>(seed.sequence), static_cast<uint64_t>(row));
        const int64_t label = label_at(x, count, drawn);
        labels[before + static_cast<size_t>(row)] = static_cast<text::TokenId>(label);
        return label_loss(x, count, label, 1.0, with_gradient);
      });
}

#define NMM_INSTANTIATE(T)                                                                         \
  template struct Head<T>;                                                                         \
  template double cross_entropy(const Head<T>&, MatrixView<const T>,                               \
                                std::span<const text::TokenId>, Precision, double, Rows<T>*);      \
  template double divergence(const Head<T>&, MatrixView<const T>, const Head<T>&,                  \
                             MatrixView<const T>, Precision, double, Rows<T>*);                    \
  template double own_label_loss(const Head<T>&, MatrixView<const T>, const LabelSeed&, Precision, \
                                 std::vector<text::TokenId>&, Rows<T>*);
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
