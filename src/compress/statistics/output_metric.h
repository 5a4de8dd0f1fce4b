#pragma once
// Measures how much each output of every MLP matters to the predictions of the dense model: the
// second moments of the gradient of the model's own log-likelihood (training/output_gradients.h).
// Method two-sided compresses with these moments as its metric (mlp_metric.h).
//
// Letters: N tokens of all sequences, H hidden_size, I intermediate_size, L layers.
//
// Labels are drawn from the model's own distribution. The moments are therefore those of Fisher's
// information, and do not depend on how surprising the text is. Position 0 counts like any other
// token. In models with massive activations its gradients may have another magnitude than all
// others, and a mean is not robust against that.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/interrupt.h"
#include "base/result.h"
#include "compress/statistics/inputs.h"
#include "compress/statistics/message.h"
#include "parallel/communicator.h"

namespace neuronmm::compress {

// Returns the part of a calibration text that the metric is computed on. Its sequences are spread
// over the text.
std::vector<std::vector<text::TokenId>> metric_sequences(const CalibrationSequences& text);

// The settings of make_output_metric().
struct MetricRequest {
  std::vector<std::vector<text::TokenId>> sequences;
  std::filesystem::path work;  // the folder of unfinished work
  std::filesystem::path file;  // the result
  uint64_t seed = 0;           // decides which labels are drawn
  // Says between two layers whether the work is to stop.
  std::function<bool()> stop = interrupted;
};

// Writes a safetensors file with a checksum (io::SafetensorsFile::open_checked). The metadata has
// hidden_size, intermediate_size, num_hidden_layers and tokens. Every layer has three tensors:
//   model.layers.0.mlp.metric_out   F64 [H, H]  the mean of g·gᵀ, where g is the gradient with
//                                               respect to the output of down, before its norm if
//                                               there is one
//   model.layers.0.mlp.metric_gate  F64 [I]     the mean square of the gradient with respect to the
//                                               output of gate, before the activation
//   model.layers.0.mlp.metric_up    F64 [I]     the same mean square for the output of up
//
// The sequences run in the groups of sequence_groups.h, and each group's sums are added to a file
// of its layer in `work`. Whatever stops a run, the next one with the same sequences continues with
// the first layer that a group has not reached, and gets the same bits. Memory holds the head in
// both directions of products, the weights of one layer, the hidden states of one group before
// every layer, the activations of one layer, and the sums of one layer (8 H² bytes, twice).
//
// Errors: those of training::Model, sequences that are empty, too long or not of the vocabulary,
// gradients that are not finite, and a stop, which is an error of the kind kInterrupted.
// If other processes help, each of them runs one group of a round, and process 0 adds up their sums
// in the order of the groups.
Status make_output_metric(const CompressionInputs& inputs, const MetricRequest& request);

// Serves make_output_metric() in another process than process 0. `in` holds the rest of a message
// of DataParallel::open_metric(), and `folder` is the model's. Returns when process 0 is done, or
// after an error, which process 0 reports.
void help_with_metric(parallel::Communicator& communicator, const std::filesystem::path& folder,
                      MessageReader& in);

}  // namespace neuronmm::compress
