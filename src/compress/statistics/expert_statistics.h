#pragma once
// The statistics of the experts of a mixture. Every expert has those of an MLP (mlp_statistics.h),
// of the tokens that choose it, and each token counts with the square of its routing weight: an
// error of an expert's output reaches the layer's output times that weight. All means are over all
// tokens of the text, so that rarely chosen experts count little and the statistics of different
// experts can be compared.
//
// An expert that few tokens choose has not enough of its own. It takes the missing tokens from the
// whole layer: what it would compute for some tokens of each sequence, whatever the router chooses,
// and the Gram matrix of all inputs.
//
// The Gram matrices of the experts' inputs serve rounding alone. Where they would take too many
// bytes, all experts of a layer have that of the layer.
//
// Experts of a compressed model may share bases. What they read and return is then narrower than H,
// and fills the first rows and columns of its Gram matrix.
//
// A layer's statistics are one file. H hidden_size, I the neurons of the largest expert.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/model_config.h"
#include "model/layer_weights.h"
#include "model/transformer.h"
#include "ops/mixture.h"

namespace neuronmm::compress {

class OpenMlp;

// How often the router has chosen an expert.
struct ExpertUse {
  double tokens = 0.0;    // the share of all tokens that chose it
  double weight = 0.0;    // the mean of its routing weight over all tokens
  double squares = 0.0;   // the mean of its square
  bool of_layer = false;  // the statistics are completed by those of the layer
};

// Returns the number of tokens below which an expert's statistics are completed.
int64_t enough_tokens_of_expert(const io::ModelConfig& config);

// Returns the shapes of the sums of a layer's experts, for LayerwisePass.
std::vector<Shape> expert_sum_shapes(const io::ModelConfig& config, Gathered what);

// The second half of a layer that is a mixture of experts.
class OpenMixture {
 public:
  OpenMixture(const io::ModelConfig& config, const model::LayerWeights& weights,
              const ops::Backend& backend);
  ~OpenMixture();
  // Replaces the hidden states [M, H] of a sequence and adds to the sums of the layer: `in` [H, H],
  // `residual` [1, 1] and those of expert_sum_shapes().
  void apply(MutableMatrixView hidden, DoubleMatrix& in, DoubleMatrix& residual,
             std::span<DoubleMatrix> sums) const;

 private:
  void add_experts(const ops::ExpertGroups& groups, ConstMatrixView z, std::span<DoubleMatrix> sums,
                   MutableMatrixView out) const;
  void add_expert(size_t expert, const ops::ExpertGroups& groups, ConstMatrixView x,
                  std::span<DoubleMatrix> sums, MutableMatrixView out) const;
  void add_sample(size_t expert, ConstMatrixView sample, std::span<DoubleMatrix> sums) const;

  const ops::Backend& backend_;
  model::SubLayer around_;
  bool norms_output_;
  ops::Router router_;
  ops::SharedBases bases_;
  std::vector<std::unique_ptr<OpenMlp>> experts_;
};

// Completes the sums of a layer and writes its file. `tokens` is the number of tokens of the text.
// The sums are overwritten. Fails if a mean is NaN or infinite; the error names `source`.
Status write_expert_statistics(const std::filesystem::path& path, const io::ModelConfig& config,
                               int64_t tokens, DoubleMatrix& in, DoubleMatrix& residual,
                               std::span<DoubleMatrix*> sums, const std::string& source);

// Fails unless the layer's file has the statistics of this model's experts and a right checksum.
Status check_expert_statistics(const std::filesystem::path& path, const io::ModelConfig& config);
// Reads the statistics of one expert from the folder `work`. `residual` is that of the layer, and
// so is `in` if the file has none of the expert. `in` is of what the expert reads.
Result<MlpStatistics> read_expert_statistics(const std::filesystem::path& work, int64_t layer,
                                             int64_t expert, const io::ModelConfig& config);
// Reads the mean of x·xᵀ [H, H] over all tokens, where x is what the layer's router reads.
Result<DoubleMatrix> read_layer_inputs(const std::filesystem::path& work, int64_t layer,
                                       const io::ModelConfig& config);
// Reads the mean of s·sᵀ [H, H], where s is what the basis of the layer's outputs reads. The
// experts of the model must share bases.
Result<DoubleMatrix> read_basis_outputs(const std::filesystem::path& work, int64_t layer,
                                        const io::ModelConfig& config);
// Reads how often each expert of each layer was chosen. A layer that is no mixture has an empty
// list.
Result<std::vector<std::vector<ExpertUse>>> read_expert_uses(const std::filesystem::path& work,
                                                             const io::ModelConfig& config);
// Returns which experts are completed, "layer 0: 3, 7; layer 2: 1", or nothing if none is.
std::string completed_experts(const std::vector<std::vector<ExpertUse>>& uses);

}  // namespace neuronmm::compress
