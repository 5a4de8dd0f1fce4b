#include "training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"
#include "training/loops.h"

namespace neuronmm::training {
namespace {

// The squares that are summed in fp32, which loses little. Those of pieces are added in fp64.
constexpr int64_t kPiece = 4096;
constexpr int64_t kUpdateWork = 20;  // of an element, in multiply-adds. Assumed.

// A step of AdamW changes each element by this.
struct Step {
  double rate, beta1, beta2, epsilon;
  double root;   // 1 / sqrt(1 − beta2^step)
  double scale;  // of the gradient
  double kept;   // 1 − rate · weight decay
};

// m = β₁·m + (1 − β₁)·g, v = β₂·v + (1 − β₂)·g², w = kept·w − rate·m / (sqrt(v)·root + ε), where
// the rate includes the correction of m.
template <typename T>
NMM_TRAINING_CLONES void adam_loop(T* value, T* m, T* v, const T* gradient, int64_t count,
                                   const Step& step) {
  const T beta1 = static_cast<T>(step.beta1), beta2 = static_cast<T>(step.beta2);
  const T rest1 = static_cast<T>(1 - step.beta1), rest2 = static_cast<T>(1 - step.beta2);
  const T scale = static_cast<T>(step.scale), rate = static_cast<T>(step.rate);
  const T root = static_cast<T>(step.root), epsilon = static_cast<T>(step.epsilon);
  const T kept = static_cast<T>(step.kept);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * scale;
    m[i] = beta1 * m[i] + rest1 * g;
    v[i] = beta2 * v[i] + rest2 * g * g;
    value[i] = kept * value[i] - rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
  }
}

template <typename T>
double squares_of(const Rows<T>& x) {
  std::vector<double> pieces(static_cast<size_t>((x.size() + kPiece - 1) / kPiece));
  for_each_piece(std::ssize(pieces), 4 * kPiece, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const int64_t first = i * kPiece;
      pieces[static_cast<size_t>(i)] = static_cast<double>(
          dot(x.data() + first, x.data() + first, std::min(kPiece, x.size() - first)));
    }
  });
  double sum = 0.0;
  for (const double piece : pieces) sum += piece;
  return sum;
}

}  // namespace

template <typename T>
Optimizer<T>::Optimizer(const std::vector<Parameter<T>*>& parameters, const AdamSettings& settings)
    : settings_(settings) {
  for (Parameter<T>* const parameter : parameters) {
    if (!parameter->trained()) continue;
    Trained& trained = trained_.emplace_back();
    trained.parameter = parameter;
    trained.m = Rows<T>(parameter->rows, parameter->columns);
    trained.v = Rows<T>(parameter->rows, parameter->columns);
    clear(trained.m.view());
    clear(trained.v.view());
  }
}

template <typename T>
int64_t Optimizer<T>::trained_parameters() const {
  int64_t count = 0;
  for (const Trained& trained : trained_) count += trained.parameter->size();
  return count;
}

template <typename T>
void Optimizer<T>::clear_gradients() {
  for (const Trained& trained : trained_) clear(trained.parameter->gradient.view());
}

template <typename T>
double Optimizer<T>::gradient_norm() const {
  double sum = 0.0;
  for (const Trained& trained : trained_) sum += squares_of(trained.parameter->gradient);
  return std::sqrt(sum);
}

template <typename T>
bool Optimizer<T>::update(double learning_rate) {
  const double norm = gradient_norm();
  if (!std::isfinite(norm)) return false;
  const auto step_number = static_cast<double>(++steps_);
  const bool clipped = settings_.largest_norm > 0.0 && norm > settings_.largest_norm;
  Step step = {.rate = learning_rate / (1.0 - std::pow(settings_.beta1, step_number)),
               .beta1 = settings_.beta1,
               .beta2 = settings_.beta2,
               .epsilon = settings_.epsilon,
               .root = 1.0 / std::sqrt(1.0 - std::pow(settings_.beta2, step_number)),
               .scale = clipped ? settings_.largest_norm / norm : 1.0,
               .kept = 1.0};
  for (const Trained& trained : trained_) {
    Parameter<T>& parameter = *trained.parameter;
    step.kept = parameter.rows > 1 ? 1.0 - learning_rate * settings_.weight_decay : 1.0;
    for_each_piece(parameter.size(), kUpdateWork, [&](int64_t first, int64_t last) {
      adam_loop(parameter.value.data() + first, trained.m.data() + first, trained.v.data() + first,
                parameter.gradient.data() + first, last - first, step);
    });
    parameter.changed();
  }
  return true;
}

template <typename T>
void Optimizer<T>::reset() {
  steps_ = 0;
  for (const Trained& trained : trained_) {
    clear(trained.m.view());
    clear(trained.v.view());
  }
}

template <typename T>
void Optimizer<T>::keep_best() {
  for (Trained& trained : trained_) {
    trained.best = Rows<T>();  // its memory is used again
    trained.best = copy_of<T>(trained.parameter->value.view());
  }
}

template <typename T>
void Optimizer<T>::restore_best() {
  for (Trained& trained : trained_) {
    NMM_CHECK(!trained.best.empty());
    std::copy_n(trained.best.data(), trained.best.size(), trained.parameter->value.data());
    trained.parameter->changed();
  }
}

template <typename T>
std::vector<StateTensor<T>> Optimizer<T>::state() {
  std::vector<StateTensor<T>> tensors;
  for (Trained& trained : trained_) {
    const std::string& name = trained.parameter->name;
    tensors.push_back({name, trained.parameter->value.view()});
    tensors.push_back({name + ".m", trained.m.view()});
    tensors.push_back({name + ".v", trained.v.view()});
    if (!trained.best.empty()) tensors.push_back({name + ".best", trained.best.view()});
  }
  return tensors;
}

template <typename T>
void Optimizer<T>::state_written() {
  for (const Trained& trained : trained_) trained.parameter->changed();
}

template class Optimizer<float>;
template class Optimizer<double>;

}  // namespace neuronmm::training
