#pragma once
// Records the steps of a forward pass through one decoder layer and the head of models whose shapes
// are well known. Their weights are zeros, so no file is needed.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "many_cores/step_recorder.h"
#include "model/layer_weights.h"

namespace neuronmm::many_cores {

// The shape of a model, from its config.json.
struct ModelShape {
  std::string name;
  int64_t hidden_size, intermediate_size, heads, kv_heads, head_dim, vocab_size;
};
std::span<const ModelShape> model_shapes();

enum class WeightBits { kFour, kSixteen };

// A pass: each sequence has so many new tokens behind `context` tokens.
struct Pass {
  std::string name;
  int64_t sequences, tokens, context;
};
// Reading a chunk of 512 tokens, and writing one token per sequence behind 4,096 tokens, with 1 and
// with 16 sequences.
std::span<const Pass> passes();

// A decoder layer and head on the CPU backend with counting_kernels().
class RecordedModel {
 public:
  RecordedModel(const ModelShape& shape, WeightBits bits);
  ~RecordedModel();

  // Returns the steps of a pass on so many threads: those of the embedding, one layer and the head.
  std::vector<Step> record(const Pass& pass, int threads) const;

 private:
  class Zeros;
  struct Parts;
  static model::LayerWeights layer_of(const ModelShape& shape, const Zeros& zeros);
  std::unique_ptr<Parts> parts_;
};

}  // namespace neuronmm::many_cores
