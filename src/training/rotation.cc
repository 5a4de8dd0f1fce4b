#include "training/rotation.h"

#include <cmath>

#include "base/pieces.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

constexpr int64_t kTurnWork = 8;  // of an element, in multiply-adds. Assumed.

// Computes (low, high) = R(±θ) · (low, high), with the sign of `sign`.
template <typename T>
NMM_TRAINING_CLONES void turn_loop(const T* cosine, const T* sine, T sign, int64_t pairs, T* low,
                                   T* high) {
  for (int64_t j = 0; j < pairs; ++j) {
    const T a = low[j], b = high[j], s = sign * sine[j];
    low[j] = a * cosine[j] - b * s;
    high[j] = b * cosine[j] + a * s;
  }
}

// Turns the rows of one sequence, from row `first` on.
template <typename T>
void turn(const AngleTable<T>& angles, T sign, int64_t head_dim, MatrixView<T> x) {
  const int64_t pairs = angles.cosine.columns();
  for_each_piece(x.rows, kTurnWork * x.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (T* head = x.row(i); head < x.row(i) + x.columns; head += head_dim) {
        turn_loop(angles.cosine.row(i), angles.sine.row(i), sign, pairs, head, head + pairs);
      }
    }
  });
}

template <typename T>
void turn_all(Angles<T>& angles, int64_t rope, const Sequences& sequences, T sign, int64_t head_dim,
              const Rows<T>& x) {
  int64_t first = 0;
  for (const int64_t length : sequences.lengths) {
    turn(*angles.of(rope, length), sign, head_dim, x.view().row_range(first, length));
    first += length;
  }
}

// Angles are computed in fp64, because at long positions fp32 would be too coarse.
template <typename T>
AngleTable<T> table_of(const std::vector<float>& frequencies, double factor, int64_t positions) {
  const int64_t pairs = std::ssize(frequencies);
  AngleTable<T> table = {Rows<T>(positions, pairs), Rows<T>(positions, pairs)};
  for_each_piece(positions, 100 * pairs, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t j = 0; j < pairs; ++j) {
        const double angle =
            static_cast<double>(i) * static_cast<double>(frequencies[static_cast<size_t>(j)]);
        table.cosine.row(i)[j] = static_cast<T>(factor * std::cos(angle));
        table.sine.row(i)[j] = static_cast<T>(factor * std::sin(angle));
      }
    }
  });
  return table;
}

}  // namespace

template <typename T>
Angles<T>::Angles(const io::ModelConfig& config)
    : tables_(config), long_from_(config.long_rope_from()) {}

template <typename T>
const AngleTable<T>* Angles<T>::of(int64_t rope, int64_t length) {
  const ops::RotaryEmbedding& rotary = tables_.at(rope);
  const bool is_long = length > long_from_;
  const auto& frequencies = is_long ? rotary.long_inverse_frequencies : rotary.inverse_frequencies;
  if (frequencies.empty()) return nullptr;
  AngleTable<T>& known = known_[{rope, is_long}];
  if (known.cosine.rows() < length) {
    known = table_of<T>(frequencies, static_cast<double>(rotary.attention_factor), length);
  }
  return &known;
}

// dx = R(−θ)·dy, times the attention factor in both directions.
template <typename T>
void rotate(Tape<T>& tape, const Tensor<T>& x, int64_t head_dim, int64_t rope,
            const Sequences& sequences, Angles<T>& angles) {
  if (angles.of(rope, sequences.longest()) == nullptr) return;
  turn_all(angles, rope, sequences, T{1}, head_dim, x->data);
  tape.record(x, [head_dim, rope, sequences, &angles](Value<T>& of) {
    turn_all(angles, rope, sequences, T{-1}, head_dim, of.gradient);
  });
}

template class Angles<float>;
template class Angles<double>;
template void rotate(Tape<float>&, const Tensor<float>&, int64_t, int64_t, const Sequences&,
                     Angles<float>&);
template void rotate(Tape<double>&, const Tensor<double>&, int64_t, int64_t, const Sequences&,
                     Angles<double>&);

}  // namespace neuronmm::training
