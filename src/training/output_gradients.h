#pragma once
// How much the outputs of every MLP matter to the predictions: the gradients of the model's own
// log-likelihood with respect to them. The two-sided metric of `compress` is made of these.
//
// At every position one label is drawn from the model's own distribution. A token's gradient is
// that of the sum of −log p(label) over its sequence, so that it includes the later positions that
// see the token.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "training/model.h"

namespace neuronmm::training {

struct OwnLabels {
  double loss = 0.0;                  // the sum of −log p(label), in nats
  std::vector<TokenSequence> labels;  // of every sequence and position
};

// The caller's part of output_gradients().
template <typename T>
struct OutputObserver {
  // Gets the gradients of the tokens of all sequences, one layer after the other from the last to
  // the first.
  std::function<void(int64_t layer, const MlpGradients<T>&)> on_layer;
  // Is called after every layer in both directions, 2 · layers times, and may end the work.
  std::function<Status()> layer_done = {};
};

// Runs the sequences through the model and back. Memory holds the hidden states of all tokens
// before every layer, and the activations of one layer, which are computed again. A model whose
// layers are read one by one is read twice. `first_sequence` numbers the sequences for drawing, so
// that calls with parts of a text draw what one call would draw. Errors: those of Model::check and
// of reading, and those of layer_done.
template <typename T>
Result<OwnLabels> output_gradients(Model<T>& model, std::span<const TokenSequence> sequences,
                                   uint64_t seed, int64_t first_sequence,
                                   const OutputObserver<T>& observer);

}  // namespace neuronmm::training
