#pragma once
// Narrows the experts of a mixture: each keeps some of its neurons, and its down matrix makes up
// for the others. All experts of a layer may also share bases (expert_bases.h). Every expert is
// saved in a file with a checksum until the model is written, so that an interrupted run can
// continue.
//
// `compress` calls narrow_experts(). output/model_writer.h copies the tensors of the files into the
// new model.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/rounding/quantized_formats.h"
#include "compress/statistics/expert_statistics.h"
#include "compress/statistics/inputs.h"

namespace neuronmm::compress {

// Reads the data of an expert, with the local metric (mlp_metric.h). `weights` are those of the
// dense expert. Fails if its statistics cannot be read or do not fit the model, or if a matrix
// holds NaN or infinity.
Result<MlpData> read_expert_data(const CompressionInputs& inputs,
                                 const std::filesystem::path& statistics, int64_t layer,
                                 int64_t expert, const ops::MlpWeight& weights);

// The sizes and formats of the narrowed experts.
struct NarrowExpertsRequest {
  std::filesystem::path statistics;  // the folder of the statistics
  // The number of neurons of each expert of each layer; empty for a layer that is no mixture.
  std::vector<std::vector<int64_t>> widths;
  // The neurons of each expert in the order in which they are kept (neuron_order.h).
  std::vector<std::vector<std::vector<int32_t>>> orders;
  // The ranks of the bases of each layer; empty if experts share none.
  std::vector<io::ExpertBases> bases;
  // How often each expert of each layer is chosen.
  std::vector<std::vector<ExpertUse>> uses;
  // The formats in which the model will store its weights.
  WeightFormats weights;
};

// Writes narrowed_expert_path(out, layer, expert) for every expert, and bases_path(out, layer) for
// every layer that gets bases. Skips files that are intact. Several layers run at the same time.
// Errors come from statistics that are missing or damaged,
// from LAPACK, and from values that the stored dtype cannot hold. An interrupt is an error, too;
// the experts that were finished are kept.
Status narrow_experts(const CompressionInputs& inputs, const NarrowExpertsRequest& request,
                      const std::filesystem::path& out);

// Returns the file of a narrowed expert.
std::filesystem::path narrowed_expert_path(const std::filesystem::path& folder, int64_t layer,
                                           int64_t expert);
// Returns the file of the bases of a layer. Its tensors have their names without the layer's
// prefix.
std::filesystem::path bases_path(const std::filesystem::path& folder, int64_t layer);

}  // namespace neuronmm::compress
