#pragma once
// What a TrainableModel is made of. Includes torch: internal to this folder.

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "finetune/torch_adamw.h"
#include "finetune/torch_transformer.h"
#include "finetune/trainable_model.h"

namespace neuronmm::finetune {

struct Parameter {
  std::string name;
  at::Tensor value, m, v;  // of one shape; m and v are AdamW's moments
  at::Tensor best = {};    // kept by keep_best(); undefined before
};

// The sequences of a batch side by side, padded at the end, where causal attention does not look.
struct PaddedBatch {
  at::Tensor ids;      // [B, T] int64
  at::Tensor rows;     // [N] of B·T: those that predict a scored token
  at::Tensor targets;  // [N]: that token

  PaddedBatch(Batch batch, const at::Device& device);
};

// What stands for a factor in products, and how it follows from it.
struct RoundedFactor {
  at::Tensor value;
  KeptGrid grid;
};

// Hidden states of one sequence before some layer, [1, T, H]: in the model, and in the teacher
// behind that layer, once it is trained.
struct BlockStream {
  at::Tensor input, target;
};

struct TrainableModel::State {
  TorchTransformer model;
  std::optional<TorchTransformer> teacher;
  at::TensorOptions options;
  int64_t activation_bytes = 0;
  std::vector<Parameter> parameters = {};          // of the phase
  std::map<std::string, at::Tensor> by_name = {};  // parameters, moments, best values and factors
  std::map<std::string, RoundedFactor> rounded = {};  // by name, if they are
  std::vector<BlockStream> streams = {};
  int64_t block = -1;                                // the layer that is trained by itself
  mutable std::optional<double> gradient_norm = {};  // unless gradients have changed since

  // What has the gradient of a parameter: itself or its rounding.
  const at::Tensor& leaf(const Parameter& parameter) const;
  // The parameters that the last way back reached, and their gradients.
  AdamTensors with_gradients() const;
  // After parameters have changed.
  void round_parameters();
  // Its two moments begin at zero with every phase.
  void add_parameter(std::string name, at::Tensor value);
  // LoRA (arXiv 2106.09685): W + B A alpha / rank. B is zero at first, so that the model is
  // unchanged.
  void add_adapter(TorchMatrix& matrix, const Recipe& recipe, std::mt19937_64& random);
  // No parameter any more; the factors by their names.
  void forget_parameters();

  // [N, H] of the rows that predict.
  static at::Tensor predicting_rows(const at::Tensor& hidden, const PaddedBatch& batch);
  // The loss of hidden states [N, H], some rows at a time, without a graph beyond the final norm.
  // With a `gradient`, that becomes the gradient of scale · loss.
  double head(const at::Tensor& rows, const PaddedBatch& batch, double scale,
              at::Tensor* gradient) const;
  // The loss, and the gradients of scale · loss.
  double backward(const PaddedBatch& batch, double scale) const;

 private:
  int64_t layers_per_segment(const at::Tensor& ids) const;
  at::Tensor teacher_rows(const PaddedBatch& batch) const;
};

}  // namespace neuronmm::finetune
