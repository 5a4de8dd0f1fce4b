#pragma once
// A decoder layer of model/transformer.h that can be trained. It has every switch of
// io::ModelConfig and every form of MLP that a checkpoint may hold, also in mixtures of experts.
//
// Letters: M tokens, H hidden_size.

#include <string>

#include "io/model_config.h"
#include "model/layer_weights.h"
#include "training/linear.h"
#include "training/mixture.h"
#include "training/mlp.h"
#include "training/norm.h"
#include "training/rotation.h"
#include "training/tape.h"

namespace neuronmm::training {

// The weights of a layer, and what it computes.
template <typename T>
class Layer {
 public:
  // Copies the weights. `prefix` begins the names of their tensors: "model.layers.0.". The config
  // and the angles must outlive the layer.
  Layer(const io::ModelConfig& config, const model::LayerWeights& weights,
        const std::string& prefix, Angles<T>& angles);

  // Returns the layer's output for the residual stream x [M, H], whose rows are those of
  // `sequences`. Each sequence begins at position 0.
  Tensor<T> run(Tape<T>& tape, const Tensor<T>& x, const Sequences& sequences,
                const MlpObserver<T>& observer = {});

  // Calls visit(Parameter<T>&) for every tensor of the layer, in a fixed order.
  template <typename Visit>
  void for_each_parameter(const Visit& visit) {
    for (Parameter<T>* const norm : {&input_norm_, &post_attention_norm_, &attention_output_norm_,
                                     &mlp_output_norm_, &q_norm_, &k_norm_}) {
      training::for_each_parameter(*norm, visit);
    }
    training::for_each_parameter(sinks_, visit);
    for (Linear<T>* const linear : {&q_, &k_, &v_, &o_}) {
      training::for_each_parameter(*linear, visit);
    }
    training::for_each_parameter(mlp_, visit);
    training::for_each_parameter(mixture_, visit);
  }
  // A layer has one of the two.
  Mlp<T>& mlp() { return mlp_; }
  Mixture<T>& mixture() { return mixture_; }

 private:
  Tensor<T> attend(Tape<T>& tape, const Tensor<T>& x, const Sequences& sequences);
  // Returns the queries or keys of x, normed, limited and turned.
  Tensor<T> project(Tape<T>& tape, const Tensor<T>& x, const Sequences& sequences,
                    Linear<T>& linear, Parameter<T>& gain);
  NormSettings norms() const { return {config_.rms_norm_eps, config_.gain_offset, 1.0}; }

  const io::ModelConfig& config_;
  Angles<T>& angles_;
  int64_t index_;
  Parameter<T> input_norm_, post_attention_norm_, attention_output_norm_, mlp_output_norm_;
  Parameter<T> q_norm_, k_norm_, sinks_;
  Linear<T> q_, k_, v_, o_;
  Mlp<T> mlp_;
  Mixture<T> mixture_;
};

}  // namespace neuronmm::training
