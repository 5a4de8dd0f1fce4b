#include "training/model.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/model_folder.h"
#include "model/layer_weights.h"
#include "model/transformer.h"
#include "model/weight_reader.h"
#include "training/elementwise.h"

namespace neuronmm::training {
namespace {

Status refuse_rounded(const io::Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (tensor.dtype != DType::kI8 && tensor.dtype != DType::kU8) continue;
    return fail("{}: expected float weights, found {} in {}; give the model it was made of",
                checkpoint.folder().string(), tensor.dtype == DType::kI8 ? "int8" : "4 or 6 bits",
                name);
  }
  return {};
}

// Adds a tensor's gradient, or drops what only training needs.
template <typename T>
void choose(Parameter<T>& parameter, const TensorMask& mask, Precision precision) {
  if (!parameter.present()) return;
  if (mask(parameter.name)) {
    parameter.train();
  } else if (parameter.rows > 1) {  // vectors have no packings
    parameter.freeze(precision, true);
  }
}

}  // namespace

template <typename T>
Result<std::unique_ptr<Model<T>>> Model<T>::open(const std::filesystem::path& folder,
                                                 Precision precision, Residence residence,
                                                 Weights weights) {
  NMM_ASSIGN(io::ModelFolder opened, io::open_model(folder));
  std::unique_ptr<Model> model(new Model);
  model->config_ = std::move(opened.config);
  model->checkpoint_ = std::move(opened.checkpoint);
  model->precision_ = precision;
  NMM_TRY(model->load(residence, weights));
  return model;
}

// Every tensor and shape is required as in inference, so that both refuse the same folders.
template <typename T>
Status Model<T>::load(Residence residence, Weights weights) {
  if (weights == Weights::kFloats) NMM_TRY(refuse_rounded(checkpoint_));
  NMM_TRY(model::check_head(checkpoint_, config_));
  const std::string prefix = model::tensor_prefix(checkpoint_);
  const Shape table_shape = {config_.vocab_size, config_.hidden_size};
  const std::string table_name = prefix + "embed_tokens.weight";
  NMM_ASSIGN(stored_table_, model::require_weight(checkpoint_, config_, table_name, table_shape));
  NMM_ASSIGN(const auto norm, checkpoint_.require(prefix + "norm.weight", {config_.hidden_size}));
  training::load(stored_table_, table_name, table_);
  training::load(ops::WeightView(norm), prefix + "norm.weight", norm_);
  if (!config_.tie_word_embeddings) {
    NMM_ASSIGN(const auto projection,
               model::require_weight(checkpoint_, config_, "lm_head.weight", table_shape));
    training::load(projection, "lm_head.weight", projection_);
  }
  head_ = Head<T>(config_, norm_, config_.tie_word_embeddings ? table_ : projection_);
  angles_ = Angles<T>(config_);
  layers_.resize(static_cast<size_t>(num_layers()));
  for (int64_t i = 0; residence == Residence::kLoaded && i < num_layers(); ++i) {
    NMM_TRY(read_layer(i));
  }
  checkpoint_.release_pages();
  return {};
}

template <typename T>
Status Model<T>::read_layer(int64_t index) {
  NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint_, config_, index));
  const std::string prefix = fmt::format("{}layers.{}.", model::tensor_prefix(checkpoint_), index);
  layers_[static_cast<size_t>(index)] =
      std::make_unique<Layer<T>>(config_, weights, prefix, angles_);
  checkpoint_.release_pages();
  return {};
}

template <typename T>
void Model<T>::drop_layer(int64_t index) {
  layers_[static_cast<size_t>(index)] = nullptr;
}

// The kernels round the head's input in two terms, which are finer than what sums in fp32 show. It
// is therefore not rounded here.
template <typename T>
void Model<T>::round(const RoundingOf<T>& rounding_of) {
  for_each_parameter([&](Parameter<T>& parameter) {
    if (parameter.rows <= 1) return;
    parameter.rounding = rounding_of(parameter);
    parameter.rounds_input = &parameter != head_.projection;
  });
  if (table_.rounding) rounded_table_ = table_.rounding(table_.value);
}

// An untied table that is not trained is looked up in the checkpoint.
template <typename T>
void Model<T>::train(const TensorMask& mask) {
  for_each_parameter([&](Parameter<T>& parameter) {
    if (&parameter != &table_ || config_.tie_word_embeddings || mask(parameter.name)) {
      choose(parameter, mask, precision_);
    } else {
      table_.value.clear();
    }
  });
}

template <typename T>
void Model<T>::freeze() {
  for_each_parameter([&](Parameter<T>& parameter) {
    const bool only_looked_up = &parameter == &table_ && !config_.tie_word_embeddings;
    if (only_looked_up) {
      table_.value.clear();
    } else if (parameter.rows > 1) {
      parameter.freeze(precision_, false);
    }
  });
}

template <typename T>
Status Model<T>::check(std::span<const TokenSequence> sequences) const {
  if (sequences.empty()) return fail("expected at least one sequence, found none");
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TokenSequence& tokens = sequences[i];
    if (tokens.empty() || std::ssize(tokens) > config_.max_position_embeddings) {
      return fail("sequence {}: expected 1 to {} tokens (max_position_embeddings), found {}", i,
                  config_.max_position_embeddings, tokens.size());
    }
    for (const text::TokenId token : tokens) {
      if (token >= 0 && token < config_.vocab_size) continue;
      return fail("sequence {}: expected tokens below the vocab_size {}, found {}", i,
                  config_.vocab_size, token);
    }
  }
  return {};
}

template <typename T>
Tensor<T> Model<T>::embed(Tape<T>& tape, std::span<const TokenSequence> sequences, bool needs) {
  TokenSequence tokens;
  for (const TokenSequence& sequence : sequences) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
  }
  if (table_.trained()) return lookup(tape, table_, tokens, config_.embedding_scale);
  Rows<T> x(std::ssize(tokens), config_.hidden_size);
  for (int64_t i = 0; i < x.rows(); ++i) {
    const int64_t token = tokens[static_cast<size_t>(i)], first = token * x.columns();
    if (!rounded_table_.empty()) {
      std::copy_n(rounded_table_.row(token), x.columns(), x.row(i));
    } else if constexpr (std::is_same_v<T, float>) {
      to_floats(stored_table_, first, x.columns(), x.row(i));
    } else {
      to_doubles(stored_table_, first, x.columns(), x.row(i));
    }
    for (int64_t j = 0; j < x.columns(); ++j) {
      x.row(i)[j] *= static_cast<T>(config_.embedding_scale);
    }
  }
  return make_tensor(std::move(x), needs);
}

Sequences lengths_of(std::span<const TokenSequence> sequences) {
  Sequences lengths;
  for (const TokenSequence& sequence : sequences) lengths.lengths.push_back(std::ssize(sequence));
  return lengths;
}

template class Model<float>;
template class Model<double>;

}  // namespace neuronmm::training
