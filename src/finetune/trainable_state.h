#pragma once
// The inside of a TrainableModel. This header includes torch and is internal to this folder.

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "finetune/torch_adamw.h"
#include "finetune/torch_transformer.h"
#include "finetune/trainable_model.h"

namespace neuronmm::finetune {

// A tensor that the current phase trains.
struct Parameter {
  std::string name;
  at::Tensor value, m, v;  // all of one shape; m and v are AdamW's moments
  at::Tensor best = {};    // the copy of keep_best(); undefined before
};

// The sequences of a batch, padded at their ends to one length. Causal attention never looks at the
// padding.
struct PaddedBatch {
  at::Tensor ids;      // [B, T] int64
  at::Tensor rows;     // [N] indices into B·T of the rows that predict a scored token
  at::Tensor targets;  // [N] the scored tokens

  PaddedBatch(Batch batch, const at::Device& device);
};

// The rounded value that products use instead of a factor, and the grid that the factor is rounded
// to.
struct RoundedFactor {
  at::Tensor value;
  KeptGrid grid;
};

// Hidden states of one sequence, [1, T, H]: `input` is this model's before the current layer.
// `target` is the teacher's before that layer, and from begin_block on after it.
struct BlockStream {
  at::Tensor input, target;
};

// The models and everything that belongs to the current phase.
struct TrainableModel::State {
  TorchTransformer model;
  std::optional<TorchTransformer> teacher;
  at::TensorOptions options;
  int64_t activation_bytes = 0;
  std::vector<Parameter> parameters = {};          // of the current phase
  std::map<std::string, at::Tensor> by_name = {};  // parameters, moments, best values and factors
  std::map<std::string, RoundedFactor> rounded =
      {};  // by the factor's name; empty without rounding
  std::vector<BlockStream> streams = {};
  int64_t block = -1;                                // the layer that is refined by itself
  mutable std::optional<double> gradient_norm = {};  // reset when gradients change

  // Returns the tensor that holds a parameter's gradient: the parameter itself or its rounding.
  const at::Tensor& gradient_holder(const Parameter& parameter) const;
  // Returns the parameters that the last backward pass reached, and their gradients.
  AdamTensors with_gradients() const;
  // Rounds all parameters again after they have changed.
  void round_parameters();
  // Makes `value` a parameter of the phase, with both moments at zero.
  void add_parameter(std::string name, at::Tensor value);
  // Adds an adapter and makes it trainable. LoRA (arXiv 2106.09685) computes W + B A alpha / rank.
  // B is zero at first, so that the model is unchanged.
  void add_adapter(TorchMatrix& matrix, const Recipe& recipe, std::mt19937_64& random);
  // Drops all parameters of the phase. `by_name` then holds only the factors.
  void forget_parameters();

  // Returns the rows [N, H] that predict a scored token.
  static at::Tensor predicting_rows(const at::Tensor& hidden, const PaddedBatch& batch);
  // Returns the loss of hidden states [N, H], computed for some rows at a time and without a graph
  // beyond the final norm. A `gradient` that is not null receives the gradient of scale · loss.
  double head_loss(const at::Tensor& rows, const PaddedBatch& batch, double scale,
                   at::Tensor* gradient) const;
  // Returns the loss and adds the gradient of scale · loss to the gradients.
  double backward(const PaddedBatch& batch, double scale) const;

 private:
  int64_t layers_per_segment(const at::Tensor& ids) const;
  at::Tensor teacher_rows(const PaddedBatch& batch) const;
};

}  // namespace neuronmm::finetune
