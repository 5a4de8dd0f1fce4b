#pragma once
// A whole model for training. It owns its parameters in T, and runs embedding, layers and head.
//
// Letters: M tokens of a batch, H hidden_size.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "ops/weights.h"
#include "text/tokenizer/token_id.h"
#include "training/head.h"
#include "training/layer.h"

namespace neuronmm::training {

using TokenSequence = std::vector<text::TokenId>;

// Says which layers are in memory. With kOneByOne a layer is there only between Model::read_layer
// and Model::drop_layer.
enum class Residence { kLoaded, kOneByOne };

// The weights that a folder may have. Rounded ones are trained as what they stand for.
enum class Weights { kFloats, kAny };

// Returns how products round a tensor (Parameter::rounding), or an empty function.
template <typename T>
using RoundingOf = std::function<std::function<Rows<T>(const Rows<T>&)>(const Parameter<T>&)>;

// Says by a tensor's name whether it is trained.
using TensorMask = std::function<bool(std::string_view name)>;

template <typename T>
class Model {
 public:
  // Opens a folder. Fails where inference fails, and on rounded weights unless `weights` allows
  // them. Nothing is trained at first.
  static Result<std::unique_ptr<Model>> open(const std::filesystem::path& folder,
                                             Precision precision,
                                             Residence residence = Residence::kLoaded,
                                             Weights weights = Weights::kFloats);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const io::ModelConfig& config() const { return config_; }
  const io::Checkpoint& checkpoint() const { return checkpoint_; }
  Precision precision() const { return precision_; }
  int64_t num_layers() const { return config_.num_hidden_layers; }

  // Reads a layer that is not in memory.
  Status read_layer(int64_t index);
  void drop_layer(int64_t index);
  bool has_layer(int64_t index) const { return layers_[static_cast<size_t>(index)] != nullptr; }
  Layer<T>& layer(int64_t index) { return *layers_[static_cast<size_t>(index)]; }
  const Head<T>& head() const { return head_; }

  // Makes the model compute what one with rounded weights would. Called before train(), if at all.
  void round(const RoundingOf<T>& rounding_of);
  // Gives the tensors that `mask` names gradients of zero, and keeps of all others only what
  // products need. Called once, if at all.
  void train(const TensorMask& mask);
  // Keeps of all tensors in memory only what forward passes need, for a teacher.
  void freeze();
  // Calls visit(Parameter<T>&) for all tensors in memory, in a fixed order.
  template <typename Visit>
  void for_each_parameter(const Visit& visit) {
    visit(table_);
    for (const auto& layer : layers_) {
      if (layer != nullptr) layer->for_each_parameter(visit);
    }
    visit(norm_);
    if (!config_.tie_word_embeddings) visit(projection_);
  }

  // Returns an error that names the first sequence that is empty or too long, or a token that is
  // not in the vocabulary.
  Status check(std::span<const TokenSequence> sequences) const;
  // Returns the embeddings [M, H] of the sequences. They need a gradient if `needs` is set or the
  // table is trained.
  Tensor<T> embed(Tape<T>& tape, std::span<const TokenSequence> sequences, bool needs = false);

 private:
  Model() = default;
  Status load(Residence residence, Weights weights);

  io::ModelConfig config_;
  io::Checkpoint checkpoint_;
  Precision precision_ = Precision::kFp32;
  Angles<T> angles_;
  ops::WeightView stored_table_;  // [vocab_size, H]
  Rows<T> rounded_table_;         // what lookups take instead, unless it is empty
  Parameter<T> table_, norm_, projection_;
  std::vector<std::unique_ptr<Layer<T>>> layers_;
  Head<T> head_;
};

// Returns the lengths of sequences.
Sequences lengths_of(std::span<const TokenSequence> sequences);

}  // namespace neuronmm::training
