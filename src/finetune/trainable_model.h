#pragma once
// A compressed model whose factors can be trained: forward, loss, gradients and AdamW, computed by
// libtorch. This header is free of torch.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "finetune/dataset.h"
#include "finetune/recipe.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io/quantization.h"
#include "io/safetensors_writer.h"
#include "ops/quantize.h"

namespace neuronmm::finetune {

struct ModelOptions {
  std::filesystem::path model;
  std::filesystem::path teacher;  // empty: the loss is the text's, else the distance to this model
  std::string device = "cpu";     // or "cuda", as far as libtorch has it
  DType compute = DType::kF32;    // or kF64; kBF16: all fp32 but the factors of products
  int64_t activation_bytes = int64_t{1} << 30;  // kept for the way back, at most (one layer's at
                                                // least); what is not kept is computed again
  bool all_matrices = false;  // there is a phase of kAll: those that are no factors change, too
  // Train what a folder in these bits would compute: kFactors, kAll and blocks only. Of a model
  // that has rounded weights, what its config says.
  std::optional<io::Quantization> rounding = {};
};

using Batch = std::span<const Example* const>;

class TrainableModel {
 public:
  struct State;  // internal
  // Refuses a model without compressed matrices (unless all_matrices), a teacher of another
  // vocabulary, weights that are no floats, a device that is not there.
  static Result<TrainableModel> load(const ModelOptions& options);
  TrainableModel(TrainableModel&&) noexcept;
  TrainableModel& operator=(TrainableModel&&) noexcept;
  ~TrainableModel();

  const io::ModelConfig& config() const;
  const io::Checkpoint& checkpoint() const;
  // Logits of all tokens: [M, vocab_size].
  Matrix logits(std::span<const text::TokenId> tokens) const;

  // Makes `part` trainable. Adapters begin with A uniform in ±1/sqrt(in), drawn from the seed, and
  // B zero (as peft does), so that the model is unchanged.
  void begin_phase(Part part, const Recipe& recipe, uint64_t seed);
  // Merges the adapters into their factors.
  void end_phase();
  int64_t trainable_parameters() const;
  // The trained tensors as they are now, until the phase ends: a copy of them. restore_best() goes
  // back to the last one.
  void keep_best();
  void restore_best();

  // Each decoder layer by itself (AA-SVD's block refinement): its factors are trained until what it
  // makes of this model's hidden states is what the teacher's layer makes of the teacher's. Needs a
  // teacher with layers of the same width. open_blocks holds both models' hidden states of all
  // tokens from then on; begin_block makes layer 0, then 1, ... trainable, as a phase of its own
  // does; end_block goes on to the next one.
  Status open_blocks(Batch examples);
  void begin_block();
  // The sum over the tokens of examples [first, first + count) of |y - wanted|² / |wanted|², and in
  // accumulate_block the gradients of `scale` times it. Relative, so that a massive activation does
  // not outweigh everybody else.
  double block_error(int64_t first, int64_t count) const;
  double accumulate_block(int64_t first, int64_t count, double scale);
  void end_block();
  void close_blocks();

  // The sum over the scored tokens of the batch of -log p(token), or, with a teacher, of the
  // Kullback-Leibler divergence from the teacher's distribution to this model's.
  double loss_sum(Batch batch) const;
  // The same, and adds `scale` times its gradient to the gradients.
  double accumulate(Batch batch, double scale);
  void clear_gradients();
  double gradient_norm() const;
  // One step of AdamW (arXiv 1711.05101; beta 0.9 and 0.999, eps 1e-8, no weight decay) with the
  // gradients scaled to a norm of at most 1. `step` counts from 1 in every phase.
  void update(double learning_rate, int64_t step);

  // What training changes, fp32, by name. Of the phase: the trained tensors ("NAME.lora_a",
  // "NAME.lora_b", or NAME for a factor NAME itself) and AdamW's two moments of each ("NAME.m",
  // "NAME.v"), and with a kept best state "NAME.best". Of the model: the factors of all compressed
  // matrices (with all_matrices, all of the decoder layers), by their names in checkpoints.
  std::vector<io::TensorSpec> phase_tensors() const;
  std::vector<io::TensorSpec> factor_tensors() const;
  std::vector<float> read(const std::string& name) const;
  // Of a model that is rounded: a factor as the folder will hold it.
  ops::QuantizedWeight stored(const std::string& factor) const;
  std::vector<float> read_gradient(const std::string& name) const;  // of a trained tensor
  void write(const std::string& name, const float* values);

 private:
  TrainableModel();
  std::unique_ptr<State> state_;
};

// For all that torch computes.
void set_torch_threads(int threads);

}  // namespace neuronmm::finetune
