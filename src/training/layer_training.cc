#include "training/layer_training.h"

#include <numeric>

#include "base/pieces.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

constexpr int64_t kErrorWork = 8;  // of an element, in multiply-adds. Assumed.

// Writes e = y − target and returns |e|² and |target|².
template <typename T>
struct Squares {
  T error, target;
};
template <typename T>
NMM_TRAINING_CLONES Squares<T> difference_loop(const T* y, const T* target, int64_t count, T* e) {
  T error = 0, square = 0;
#pragma omp simd reduction(+ : error, square)
  for (int64_t i = 0; i < count; ++i) {
    const T difference = y[i] - target[i];
    e[i] = difference;
    error += difference * difference;
    square += target[i] * target[i];
  }
  return {error, square};
}

}  // namespace

// Relative: dy = 2·e / |y*|². With a metric: dy = 2·Γ·e.
template <typename T>
double layer_loss(MatrixView<const T> y, MatrixView<const T> target, const LayerLoss<T>& loss,
                  Precision precision, double scale, Rows<T>* gradient) {
  Rows<T> e(y.rows, y.columns), weighted;
  std::vector<double> losses(static_cast<size_t>(y.rows));
  for_each_piece(y.rows, kErrorWork * y.columns, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Squares<T> of = difference_loop(y.row(i), target.row(i), y.columns, e.row(i));
      if (loss.metric != nullptr) continue;
      // A target of zeros counts by its absolute error.
      const double square = of.target > T{0} ? static_cast<double>(of.target) : 1.0;
      losses[static_cast<size_t>(i)] = static_cast<double>(of.error) / square;
      if (gradient != nullptr)
        scaled(static_cast<T>(2.0 * scale / square), e.row(i), y.columns, e.row(i));
    }
  });
  if (loss.metric != nullptr) {
    LeftFactor<T> left;
    left.pack(e.view(), precision);
    weighted = Rows<T>(y.rows, y.columns);
    multiply(left, *loss.metric, weighted.view());
    for_each_piece(y.rows, kErrorWork * y.columns, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        losses[static_cast<size_t>(i)] =
            static_cast<double>(dot(e.row(i), weighted.row(i), y.columns));
        if (gradient != nullptr)
          scaled(static_cast<T>(2.0 * scale), weighted.row(i), y.columns, weighted.row(i));
      }
    });
  }
  if (gradient != nullptr) *gradient = loss.metric == nullptr ? std::move(e) : std::move(weighted);
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

template <typename T>
void train(Layer<T>& layer, const TensorMask& mask) {
  layer.for_each_parameter([&](Parameter<T>& parameter) {
    if (mask(parameter.name)) parameter.train();
  });
}

template <typename T>
LayerTraining<T>::LayerTraining(Layer<T>& layer, Precision precision, const AdamSettings& settings,
                                const LayerLoss<T>& loss)
    : layer_(layer),
      precision_(precision),
      loss_(loss),
      optimizer_(trained_parameters<T>(layer), settings) {}

template <typename T>
Rows<T> run_layer(Layer<T>& layer, Precision precision, MatrixView<const T> inputs,
                  const Sequences& sequences) {
  Tape<T> silent(precision, false);
  return std::move(layer.run(silent, make_tensor(copy_of(inputs)), sequences)->data);
}

template <typename T>
double LayerTraining<T>::error(MatrixView<const T> inputs, MatrixView<const T> targets,
                               const Sequences& sequences) const {
  const Rows<T> y = run_layer(layer_, precision_, inputs, sequences);
  return layer_loss<T>(y.view(), targets, loss_, precision_, 1.0, nullptr);
}

template <typename T>
double LayerTraining<T>::accumulate(MatrixView<const T> inputs, MatrixView<const T> targets,
                                    const Sequences& sequences, double scale) {
  Tape<T> tape(precision_);
  const Tensor<T> y = layer_.run(tape, make_tensor(copy_of(inputs)), sequences);
  Rows<T> gradient;
  const double sum = layer_loss<T>(y->view(), targets, loss_, precision_, scale, &gradient);
  y->gradient = std::move(gradient);
  tape.read_backwards();
  return sum;
}

#define NMM_INSTANTIATE(T)                                                                  \
  template double layer_loss(MatrixView<const T>, MatrixView<const T>, const LayerLoss<T>&, \
                             Precision, double, Rows<T>*);                                  \
  template void train(Layer<T>&, const TensorMask&);                                        \
  template Rows<T> run_layer(Layer<T>&, Precision, MatrixView<const T>, const Sequences&);  \
  template class LayerTraining<T>;
NMM_INSTANTIATE(float)
NMM_INSTANTIATE(double)
#undef NMM_INSTANTIATE

}  // namespace neuronmm::training
