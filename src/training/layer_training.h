#pragma once
// Layer reconstruction: one layer learns to make of one stream of hidden states what another
// model's layer makes of its own. The caller keeps both streams.
//
//   targets = run_layer(dense_layer, precision, targets, sequences)   for every part of the text
//   train(layer, mask)                                                which tensors learn
//   LayerTraining<float> training(layer, precision, settings)
//   training.optimizer().keep_best()
//   for each step: training.optimizer().clear_gradients()
//                  training.accumulate(inputs, targets, sequences, 1 / tokens)
//                  training.optimizer().update(rate)
//   training.error() on held-out text, then keep_best() or at the end restore_best()
//   inputs = run_layer(layer, precision, inputs, sequences)           for every part of the text
//
// Letters: M tokens, H hidden_size.

#include "training/layer.h"
#include "training/model.h"
#include "training/optimizer.h"

namespace neuronmm::training {

// How the error e = y − y* of a token counts.
template <typename T>
struct LayerLoss {
  // Null: |e|² / |y*|² (or |e|² if y* is 0), so that massive activations do not outweigh all
  // others. Otherwise eᵀ·Γ·e, where Γ [H, H] is symmetric, the output metric for instance.
  const RightFactor<T>* metric = nullptr;
};

// Returns the sum of the errors of y over its M tokens. If `gradient` is not null, it becomes
// `scale` times the gradient of that sum.
template <typename T>
double layer_loss(MatrixView<const T> y, MatrixView<const T> target, const LayerLoss<T>& loss,
                  Precision precision, double scale, Rows<T>* gradient);

// Gives the layer's tensors that `mask` names gradients of zero.
template <typename T>
void train(Layer<T>& layer, const TensorMask& mask);

// Returns the output [M, H] of a layer, to make targets or the next layer's inputs.
template <typename T>
Rows<T> run_layer(Layer<T>& layer, Precision precision, MatrixView<const T> inputs,
                  const Sequences& sequences);

template <typename T>
class LayerTraining {
 public:
  // The layer must outlive this object.
  LayerTraining(Layer<T>& layer, Precision precision, const AdamSettings& settings,
                const LayerLoss<T>& loss = {});

  // Returns the sum of the errors over the M tokens.
  double error(MatrixView<const T> inputs, MatrixView<const T> targets,
               const Sequences& sequences) const;
  // Returns the same and adds `scale` times its gradient to those of the trained tensors.
  double accumulate(MatrixView<const T> inputs, MatrixView<const T> targets,
                    const Sequences& sequences, double scale);
  Optimizer<T>& optimizer() { return optimizer_; }

 private:
  Layer<T>& layer_;
  Precision precision_;
  LayerLoss<T> loss_;
  Optimizer<T> optimizer_;
};

}  // namespace neuronmm::training
