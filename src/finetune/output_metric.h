#pragma once
// Measures how much each output of every MLP matters to the predictions. The measure is the second
// moments of the gradient of the model's own log-likelihood. A two-sided compression objective uses
// these moments as its metric.
//
// Letters: N tokens of all sequences, H hidden_size, I intermediate_size.
//
// At every position one label is drawn from the model's own distribution. The moments are therefore
// those of Fisher's information, and do not depend on how surprising the text is. A token's
// gradient is the gradient of the sum of -log p(label) over its sequence. That sum includes the
// token's own position and all later positions, which see the token through attention. Position 0
// is treated like any other token. In models with massive activations its gradients may have
// another magnitude than all others, and a mean is not robust against that.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::finetune {

struct MetricRequest {
  std::filesystem::path model;  // a folder of float weights
  std::vector<std::vector<text::TokenId>> sequences;
  std::filesystem::path out;
  uint64_t seed = 0;            // of the drawn labels
  DType compute = DType::kF32;  // kF32 or kF64
};

struct MetricSummary {
  int64_t tokens = 0;
  double mean_loss = 0.0;                          // the mean of -log p(label), in nats
  std::vector<std::vector<text::TokenId>> labels;  // the drawn labels per sequence and position
};

// Writes `out`, a safetensors file with a checksum (io::SafetensorsFile::open_checked). The
// metadata has hidden_size, intermediate_size, num_hidden_layers and tokens. Every layer has three
// tensors:
//   model.layers.0.mlp.metric_out   F64 [H, H]  the mean of g gT, where g is the gradient with
//                                               respect to the output of down, before that is
//                                               added to the residual stream
//   model.layers.0.mlp.metric_gate  F64 [I]     the mean square of the gradient with respect to the
//                                               output of gate (before silu)
//   model.layers.0.mlp.metric_up    F64 [I]     the same mean square for the output of up
//
// Memory holds the embedding and the LM head, the weights of one layer, 8 H² bytes per layer and
// one sequence's hidden states per layer. It also holds the activations of one layer, which are
// computed again on the backward pass. Errors: no sequences or an empty one, tokens outside the
// vocabulary, sequences longer than the model takes, and interrupts, after which nothing is kept.
Result<MetricSummary> write_output_metric(const MetricRequest& request, Progress& progress);

}  // namespace neuronmm::finetune
