#pragma once
// How much each output of every MLP matters to the predictions: second moments of the gradient of
// the model's own log-likelihood, the metric of a two-sided compression objective.
//
// Letters: N tokens of all sequences, H hidden_size, I intermediate_size.
//
// At every position one label is drawn from the model's own distribution, so that the moments are
// those of Fisher's information and not of a text's surprises. A token's gradient is that of the
// sum of -log p(label) over its sequence: its own position and all later ones, which see it through
// attention. Position 0 is a token like the others; in models with massive activations its
// gradients may be of another magnitude than everybody else's, and a mean is not robust against
// that.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "text/tokenizer.h"

namespace neuronmm::finetune {

struct MetricRequest {
  std::filesystem::path model;  // of float weights
  std::vector<std::vector<text::TokenId>> sequences;
  std::filesystem::path out;
  uint64_t seed = 0;            // of the labels
  DType compute = DType::kF32;  // or kF64
};

struct MetricSummary {
  int64_t tokens = 0;
  double mean_loss = 0.0;                          // -log p(label), nats
  std::vector<std::vector<text::TokenId>> labels;  // as drawn, per sequence and position
};

// Writes `out`, a safetensors file with a checksum (io::SafetensorsFile::open_checked). Of each
// layer
//   model.layers.0.mlp.metric_out   F64 [H, H]  mean of g gT, g the gradient with respect to what
//                                               down makes, before it is added to the residual
//                                               stream
//   model.layers.0.mlp.metric_gate  F64 [I]     mean square of the gradient with respect to what
//   model.layers.0.mlp.metric_up    F64 [I]     gate (before silu) and up make
// and the metadata hidden_size, intermediate_size, num_hidden_layers, tokens.
//
// Memory: the embedding and the LM head, the weights of one layer, 8 H² bytes per layer, one
// sequence's hidden states per layer, and the activations of one layer, which are computed again on
// the way back. Errors: no or empty sequences, tokens outside the vocabulary, sequences longer than
// the model takes; interrupts, which keep nothing.
Result<MetricSummary> write_output_metric(const MetricRequest& request, Progress& progress);

}  // namespace neuronmm::finetune
