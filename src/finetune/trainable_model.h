#pragma once
// A compressed model whose factors can be trained: forward pass, loss, gradients and AdamW,
// computed by libtorch. Training and BlockRefinement drive it. Loading fails on a model, teacher or
// device that does not fit, and libtorch throws std::exception where memory is short. This header
// does not include torch.

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

// The folders that a TrainableModel is loaded from, and how it computes.
struct ModelOptions {
  std::filesystem::path model;
  // The model that the loss compares with. Empty: the loss is that of the text.
  std::filesystem::path teacher;
  // "cpu", or "cuda" if this libtorch supports it.
  std::string device = "cpu";
  // kF32 or kF64. kBF16: everything is fp32 except the factors of products.
  DType compute = DType::kF32;
  // The largest number of bytes of activations that are kept for the backward pass. At least one
  // layer's are kept. The other activations are computed again.
  int64_t activation_bytes = int64_t{1} << 30;
  // A phase of kAll comes, so that matrices that are no factors change, too.
  bool all_matrices = false;
  // Trains what a folder with these formats would compute, for phases of kFactors, kAll and kBlocks
  // only. For a model with rounded weights it must be what the model's config says.
  std::optional<io::Quantization> rounding = {};
};

// Sequences that are computed together.
using Batch = std::span<const Example* const>;

// The model, its parameters of the current phase, their gradients and AdamW's moments.
class TrainableModel {
 public:
  struct State;  // internal
  // Loads the model and its teacher. It refuses a model without compressed matrices (unless
  // all_matrices), a teacher with another vocabulary, weights that are no floats, and a device that
  // is missing.
  static Result<TrainableModel> load(const ModelOptions& options);
  TrainableModel(TrainableModel&&) noexcept;
  TrainableModel& operator=(TrainableModel&&) noexcept;
  ~TrainableModel();

  const io::ModelConfig& config() const;
  const io::Checkpoint& checkpoint() const;
  // Returns the logits of all tokens: [M, vocab_size].
  Matrix logits(std::span<const text::TokenId> tokens) const;

  // Makes `part` trainable. In a new adapter A is uniform in ±1/sqrt(in), drawn from the seed, and
  // B is zero (as in peft), so that the model is unchanged.
  void begin_phase(Part part, const Recipe& recipe, uint64_t seed);
  // Ends the phase and merges its adapters into their factors.
  void end_phase();
  int64_t trainable_parameters() const;
  // Copies the current values of the trained tensors. restore_best() goes back to the last copy.
  // Copies are dropped when the phase ends.
  void keep_best();
  void restore_best();

  // The following functions train each decoder layer by itself (AA-SVD's block refinement). Its
  // factors are trained until the layer makes of this model's hidden states what the teacher's
  // layer makes of the teacher's. The teacher must have as many layers of the same width.
  // open_blocks keeps both models' hidden states of all tokens until close_blocks. begin_block
  // makes layer 0 trainable, then 1, and so on, each as a phase of its own. end_block ends that
  // phase.
  Status open_blocks(Batch examples);
  void begin_block();
  // Returns the sum over the tokens of examples [first, first + count) of |y - target|² /
  // |target|². accumulate_block also adds `scale` times its gradient to the gradients. The error is
  // relative, so that a massive activation does not outweigh all others.
  double block_error(int64_t first, int64_t count) const;
  double accumulate_block(int64_t first, int64_t count, double scale);
  void end_block();
  void close_blocks();

  // Returns the sum of the losses of the batch's scored tokens. The loss of a token is -log
  // p(token). With a teacher it is the Kullback-Leibler divergence from the teacher's distribution
  // to this model's.
  double loss_sum(Batch batch) const;
  // Returns the same sum and adds `scale` times its gradient to the gradients.
  double accumulate(Batch batch, double scale);
  void clear_gradients();
  double gradient_norm() const;
  // Makes one step of AdamW (arXiv 1711.05101; beta 0.9 and 0.999, eps 1e-8, no weight decay). The
  // gradients are first scaled to a norm of at most 1. `step` counts from 1 in every phase.
  void update(double learning_rate, int64_t step);

  // The tensors that training changes, in fp32.
  //
  // phase_tensors lists those of the phase: the trained tensors ("NAME.lora_a" and "NAME.lora_b",
  // or NAME for a factor itself), AdamW's two moments ("NAME.m", "NAME.v") and the kept best values
  // ("NAME.best"). factor_tensors lists the factors of all compressed matrices (with all_matrices,
  // all matrices of the decoder layers) by their names in checkpoints. `read` returns the values of
  // a tensor of either list.
  std::vector<io::TensorSpec> phase_tensors() const;
  std::vector<io::TensorSpec> factor_tensors() const;
  std::vector<float> read(const std::string& name) const;
  // Returns a factor of a rounded model as the folder will hold it.
  ops::QuantizedWeight stored(const std::string& factor) const;
  // Returns the gradient of a trained tensor.
  std::vector<float> read_gradient(const std::string& name) const;
  // Replaces the values of a tensor of either list. A factor of a rounded model is rounded again.
  void write(const std::string& name, const float* values);

 private:
  TrainableModel();
  std::unique_ptr<State> state_;
};

// Sets the number of threads for everything that torch computes.
void set_torch_threads(int threads);

}  // namespace neuronmm::finetune
