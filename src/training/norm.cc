#include "training/norm.h"

#include <cmath>
#include <vector>

#include "base/pieces.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

// The cost of an element, in multiply-adds on data in cache. Assumed.
constexpr int64_t kNormWork = 8;
// The gains whose gradients a thread computes at a time.
constexpr int64_t kGains = 64;

template <typename T>
NMM_TRAINING_CLONES void scale_loop(const T* x, const T* gain, T scale, int64_t count, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * scale * gain[i];
}

// Computes dx = s · (a − n · mean(a ⊙ n)) with a = dy ⊙ gain and n = x · s.
template <typename T>
NMM_TRAINING_CLONES void backward_loop(const T* x, const T* gain, const T* dy, T s, int64_t count,
                                       T* dx) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += dy[i] * gain[i] * x[i];
  const T mean = sum * s * s * s / static_cast<T>(count);
  for (int64_t i = 0; i < count; ++i) dx[i] = s * dy[i] * gain[i] - x[i] * mean;
}

template <typename T>
NMM_TRAINING_CLONES void gain_loop(const T* x, const T* dy, T s, int64_t count, double* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(dy[i] * (x[i] * s));
}

// A matrix as groups of neighbouring columns, each of which is normed by itself.
template <typename T>
struct Groups {
  Tensor<T> x;
  std::vector<T> gains;   // with offset and factor
  std::vector<T> scales;  // s of every group, [rows * groups per row]
  double factor;

  int64_t width() const { return std::ssize(gains); }
  int64_t count() const { return x->data.size() / width(); }
  const T* at(int64_t i) const { return x->data.data() + i * width(); }
};

// Adds factor · Σ dy ⊙ n to the gains' gradient. Each gain is one chain, in the order of the rows.
template <typename T>
void add_gain_gradient(const Groups<T>& of, const Rows<T>& dy, Parameter<T>& gain) {
  parallel_for((of.width() + kGains - 1) / kGains, [&](int64_t piece) {
    const int64_t first = piece * kGains, count = std::min(kGains, of.width() - first);
    double sums[kGains] = {};
    for (int64_t i = 0; i < of.count(); ++i) {
      gain_loop(of.at(i) + first, dy.data() + i * of.width() + first,
                of.scales[static_cast<size_t>(i)], count, sums);
    }
    for (int64_t j = 0; j < count; ++j) {
      gain.gradient.data()[first + j] += static_cast<T>(of.factor * sums[j]);
    }
  });
}

}  // namespace

template <typename T>
Tensor<T> rms_norm(Tape<T>& tape, const Tensor<T>& x, Parameter<T>& gain,
                   const NormSettings& settings) {
  if (!gain.present()) return x;
  Groups<T> groups = {.x = x, .gains = {}, .scales = {}, .factor = settings.factor};
  for (int64_t j = 0; j < gain.columns; ++j) {
    const double value = static_cast<double>(gain.value.data()[j]) + settings.gain_offset;
    groups.gains.push_back(static_cast<T>(value * settings.factor));
  }
  const int64_t width = groups.width();
  NMM_CHECK(x->columns() % width == 0);
  groups.scales.resize(static_cast<size_t>(groups.count()));
  Rows<T> y(x->rows(), x->columns());
  for_each_piece(groups.count(), kNormWork * width, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const T mean = dot(groups.at(i), groups.at(i), width) / static_cast<T>(width);
      const T s = T{1} / std::sqrt(mean + static_cast<T>(settings.eps));
      groups.scales[static_cast<size_t>(i)] = s;
      scale_loop(groups.at(i), groups.gains.data(), s, width, y.data() + i * width);
    }
  });
  const Tensor<T> result = make_tensor(std::move(y), x->needs_gradient || gain.trained());
  if (!tape.records()) return result;
  tape.record(result, [of = std::move(groups), &gain](Value<T>& normed) {
    const Rows<T>& dy = normed.gradient;
    if (gain.trained()) add_gain_gradient(of, dy, gain);
    if (!of.x->needs_gradient) return;
    Rows<T> dx(dy.rows(), dy.columns());
    for_each_piece(of.count(), kNormWork * of.width(), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        backward_loop(of.at(i), of.gains.data(), dy.data() + i * of.width(),
                      of.scales[static_cast<size_t>(i)], of.width(), dx.data() + i * of.width());
      }
    });
    of.x->add_gradient(std::move(dx));
  });
  return result;
}

template Tensor<float> rms_norm(Tape<float>&, const Tensor<float>&, Parameter<float>&,
                                const NormSettings&);
template Tensor<double> rms_norm(Tape<double>&, const Tensor<double>&, Parameter<double>&,
                                 const NormSettings&);

}  // namespace neuronmm::training
