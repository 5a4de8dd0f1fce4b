#include "compress/rounding/calibrated_rounding.h"

#include <cmath>

#include "compress/rounding/round_model.h"
#include "compress/statistics/expert_statistics.h"
#include "compress/statistics/gathered_statistics.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/atomic_file.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Returns the exponent of the smoothing factors (smoothing.h) for tensors of this format. The
// exponent of 4-bit weights was chosen on SmolLM2 with weights moved off their 4-bit grid
// (measured, docs/measurements/low_bits.md).
double exponent_of(const LowBitFormat& format) { return format.bits == 4 ? 0.25 : 0.5; }

// Returns the root mean square of each channel, whose mean square is on the diagonal of `gram`.
std::vector<double> sizes_of(const DoubleMatrix& gram) {
  std::vector<double> sizes = diagonal(gram);
  for (double& size : sizes) size = std::sqrt(size);
  return sizes;
}

// A layer may have fewer neurons than intermediate_size, and an expert fewer than the largest one.
std::vector<double> sizes_of_neurons(const DoubleMatrix& gram, const ops::MlpWeight& mlp) {
  std::vector<double> sizes = sizes_of(gram);
  sizes.resize(static_cast<size_t>(mlp.neurons()));
  return sizes;
}

Result<ChannelSizes> layer_sizes(const fs::path& statistics, const io::ModelConfig& config,
                                 const model::LayerWeights& weights) {
  const int64_t layer = weights.layer;
  NMM_ASSIGN(const auto attention, read_attention_statistics(statistics, layer, config));
  ChannelSizes sizes = {sizes_of(attention.in), sizes_of(attention.heads), {}, {}, {}};
  if (!weights.mixture) {
    NMM_ASSIGN(const auto mlp, read_statistics(statistics, layer, config));
    sizes.mlp = sizes_of(mlp.in);
    sizes.neurons = sizes_of_neurons(mlp.neurons, weights.mlp);
    return sizes;
  }
  for (int64_t e = 0; e < std::ssize(weights.mixture->experts); ++e) {
    NMM_ASSIGN(const auto expert, read_expert_statistics(statistics, layer, e, config));
    const auto& mlp = weights.mixture->experts[static_cast<size_t>(e)];
    sizes.experts.push_back(sizes_of_neurons(expert.neurons, mlp));
  }
  return sizes;
}

Result<TensorScales> scales_by(const fs::path& statistics, const io::Checkpoint& checkpoint,
                               const io::ModelConfig& config,
                               const io::Quantization& quantization) {
  NMM_ASSIGN(const DoubleMatrix head, read_head_statistics(statistics, config));
  const auto sizes = [&](int64_t layer) -> Result<ChannelSizes> {
    NMM_ASSIGN(const auto weights, model::layer_weights(checkpoint, config, layer));
    return layer_sizes(statistics, config, weights);
  };
  return smoothing_scales(
      checkpoint, config, sizes, sizes_of(head),
      [&](const std::string& tensor) { return exponent_of(quantization.format_of(tensor)); });
}

// Returns the name of the tensor that is the LM head.
std::string head_name(const CompressionInputs& inputs) {
  if (!inputs.config.tie_word_embeddings) return "lm_head.weight";
  return model::tensor_prefix(inputs.checkpoint) + "embed_tokens.weight";
}

}  // namespace

Result<RoundedByText> round_by_text(const CompressionInputs& inputs,
                                    const CalibratedRounding& rounding,
                                    const io::Quantization& quantization, const fs::path& work) {
  const StatisticsRequest wanted = {.folder = rounding.statistics,
                                    .saved = rounding.saved,
                                    .method = "whitened",
                                    .what = Gathered::kAllLinears,
                                    .force = rounding.force};
  NMM_ASSIGN(const auto files, gathered_statistics(inputs, wanted, work));
  RoundedByText rounded;
  if (rounding.smooth) {
    NMM_ASSIGN(rounded.scales,
               scales_by(files.statistics, inputs.checkpoint, inputs.config, quantization));
  }
  if (!rounding.gptq) return rounded;
  rounded.codes = work / "codes";
  NMM_TRY(io::make_folder(rounded.codes));
  const ModelRounding model = {
      .checkpoint = inputs.checkpoint,
      .config = inputs.config,
      .format_of = [&](const std::string& tensor) { return quantization.format_of(tensor); },
      .statistics = files.statistics,
      .scales = rounded.scales,
      .settings = rounding.settings,
      .round_head = quantization.rounding_of(head_name(inputs)).has_value()};
  NMM_TRY(round_model(model, rounded.codes, inputs.progress));
  return rounded;
}

}  // namespace neuronmm::compress
