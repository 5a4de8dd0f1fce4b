#pragma once
// AdamW (arXiv 1711.05101) for the trained tensors of a layer or a model. Values, gradients and
// both moments are T.

#include <cstdint>
#include <string>
#include <vector>

#include "training/tape.h"

namespace neuronmm::training {

struct AdamSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.0;  // of matrices; vectors do not decay
  double largest_norm = 1.0;  // gradients are first scaled to at most this norm; 0: never
};

// A tensor that must be saved so that a run can be resumed bit by bit: NAME, NAME.m, NAME.v, or
// NAME.best after keep_best().
template <typename T>
struct StateTensor {
  std::string name;
  MatrixView<T> values;
};

template <typename T>
class Optimizer {
 public:
  // Parameters that are not trained are left out. The others must outlive this object.
  Optimizer(const std::vector<Parameter<T>*>& parameters, const AdamSettings& settings);

  int64_t trained_parameters() const;
  void clear_gradients();
  // Returns the norm of all gradients together. NaN and infinity show here.
  double gradient_norm() const;
  // Makes one step. If the norm is not finite it changes nothing and returns false.
  bool update(double learning_rate);
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }  // of a resumed run

  // Forgets all steps and moments.
  void reset();
  // Copies all values, and goes back to the last copy.
  void keep_best();
  void restore_best();

  std::vector<StateTensor<T>> state();
  // Must be called after the values of state() were written.
  void state_written();

 private:
  struct Trained {
    Parameter<T>* parameter;
    Rows<T> m, v, best;
  };
  std::vector<Trained> trained_;
  AdamSettings settings_;
  int64_t steps_ = 0;
};

// Returns pointers to the trained parameters of a layer or a model.
template <typename T, typename Owner>
std::vector<Parameter<T>*> trained_parameters(Owner& owner) {
  std::vector<Parameter<T>*> parameters;
  owner.for_each_parameter([&](Parameter<T>& parameter) {
    if (parameter.trained()) parameters.push_back(&parameter);
  });
  return parameters;
}

}  // namespace neuronmm::training
