#pragma once
// Chooses which neurons the experts of a mixture keep, which experts a layer keeps, and how large
// the bases are that the experts of a layer share. `compress` (compressed_mixture.h) calls it.
//
//   neurons   All experts lose equally many neurons, or each as many as it can spare. In the second
//             case all experts of all layers share one budget by their predicted losses. Losses of
//             rarely chosen experts are small, because their statistics count each token by its
//             routing weight.
//   basis     The experts of a layer share bases, of the same rank in all layers, or of the ranks
//             with the least predicted loss.
//   mixed     Experts have fewer neurons and share bases, each as far as it pays.
//   experts   The experts that the router chooses least often are dropped, equally many in every
//             layer.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "compress/sizes/form.h"
#include "compress/sizes/rank.h"
#include "compress/statistics/expert_statistics.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// The result of one expert.
struct ExpertReport {
  ExpertUse use;
  int64_t neurons = 0;          // 0: dropped
  double predicted_loss = 0.0;  // nats per token; 0 for form experts, which predicts none
};

// The result of the bases of one layer.
struct BasisReport {
  io::ExpertBases ranks;
  double predicted_loss = 0.0;  // nats per token
};

// A request for sizes.
struct ExpertSizesRequest {
  Form form = Form::kNeurons;  // or kExperts, kBasis, kMixed
  RankRule rule;
  bool uniform = false;  // neurons: the same number for all experts; basis: the same ranks
};

// The sizes of all experts.
struct ExpertSizes {
  Form form = Form::kNeurons;  // or kExperts, kBasis, kMixed
  bool uniform = false;        // all experts have equally many neurons
  bool by_formula = false;     // the sizes follow from the ratio or from use, not from losses
  // The bases of every layer; empty if the form has none.
  std::vector<BasisReport> bases;
  // The experts of every layer; empty for a layer that is no mixture.
  std::vector<std::vector<ExpertReport>> layers;
  // The neurons of each expert, the most important first; empty lists if all are kept.
  std::vector<std::vector<std::vector<int32_t>>> orders;

  // Returns the neurons of each expert of each layer.
  std::vector<std::vector<int64_t>> widths() const;
  // Returns the ranks of the bases of each layer, or nothing if the form has none.
  std::vector<io::ExpertBases> basis_ranks() const;
  // Returns how often each expert of each layer was chosen.
  std::vector<std::vector<ExpertUse>> uses() const;
  // Returns the experts that a layer keeps, ascending.
  std::vector<int32_t> kept(int64_t layer) const;
};

// Fails if no sizes keep as little as the request asks for. Callers ask before any work is done.
// The model must be a mixture.
Status check_expert_sizes(const io::ModelConfig& config, const ExpertSizesRequest& request);

// Chooses the sizes. `statistics` is the folder of the statistics. Fails if they cannot be read, if
// LAPACK fails, or if an interrupt comes; nothing is kept then.
Result<ExpertSizes> choose_expert_sizes(const CompressionInputs& inputs,
                                        const ExpertSizesRequest& request,
                                        const std::filesystem::path& statistics);

// Returns the config of the model with these sizes.
io::ModelConfig config_of_experts(io::ModelConfig config, const ExpertSizes& sizes);

}  // namespace neuronmm::compress
