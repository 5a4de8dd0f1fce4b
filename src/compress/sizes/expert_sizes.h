#pragma once
// Chooses which neurons the experts of a mixture keep, or which experts a layer keeps.
// `compress` (compressed_mixture.h) calls it.
//
//   neurons   All experts lose as many neurons, or each as many as it can spare: all experts of all
//             layers then share one budget by their predicted losses. Losses of rarely chosen
//             experts are small, because their statistics count each token by its routing weight.
//   experts   The experts that the router chooses least often are dropped, as many in every layer.

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

// A request for sizes.
struct ExpertSizesRequest {
  Form form = Form::kNeurons;  // or kExperts
  RankRule rule;
  bool uniform = false;  // form neurons: the same number for all experts
};

// The sizes of all experts.
struct ExpertSizes {
  Form form = Form::kNeurons;  // or kExperts
  bool uniform = false;        // all experts have as many neurons
  // The experts of every layer; empty for a layer that is no mixture.
  std::vector<std::vector<ExpertReport>> layers;
  // Form neurons: the neurons of each expert, the most important first.
  std::vector<std::vector<std::vector<int32_t>>> orders;

  // Returns the neurons of each expert of each layer.
  std::vector<std::vector<int64_t>> widths() const;
  // Returns how often each expert of each layer was chosen.
  std::vector<std::vector<ExpertUse>> uses() const;
  // Returns the experts that a layer keeps, ascending.
  std::vector<int32_t> kept(int64_t layer) const;
};

// Fails if no sizes keep as little as the request asks for. Callers ask before any work is done.
Status check_expert_sizes(const io::ModelConfig& config, const ExpertSizesRequest& request);

// Chooses the sizes. `statistics` is the folder of the statistics.
Result<ExpertSizes> choose_expert_sizes(const CompressionInputs& inputs,
                                        const ExpertSizesRequest& request,
                                        const std::filesystem::path& statistics);

// Returns the config of the model with these sizes.
io::ModelConfig config_of_experts(io::ModelConfig config, const ExpertSizes& sizes);

}  // namespace neuronmm::compress
