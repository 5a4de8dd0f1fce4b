#include "compress/predicted_curves.h"

#include <system_error>

#include "compress/layer_tasks.h"
#include "compress/loss_job.h"
#include "compress/losses_file.h"
#include "compress/narrow_layers.h"

namespace neuronmm::compress {

namespace fs = std::filesystem;

Result<std::vector<PredictedLosses>> predicted_curves(const CompressionInputs& inputs,
                                                      const StatisticsFiles& files,
                                                      const fs::path& work) {
  std::error_code error;
  fs::create_directories(files.losses, error);
  if (error) return fail("{}: cannot be created: {}", files.losses.string(), error.message());
  std::vector<PredictedLosses> layers(static_cast<size_t>(inputs.config.num_hidden_layers));
  const auto saved = [&](int64_t layer) {
    auto losses = read_losses(files.losses, layer, inputs.config);
    if (!losses) return false;
    layers[static_cast<size_t>(layer)] = *std::move(losses);
    return true;
  };
  const auto save = [&](int64_t layer, PredictedLosses losses) {
    const Status status = save_losses(files.losses, layer, losses);
    layers[static_cast<size_t>(layer)] = std::move(losses);
    return status;
  };
  LayerTasks tasks(inputs, work);
  const std::string label = "predicting losses";
  if (inputs.others != nullptr) {
    const auto job = [&](int64_t layer) -> Result<std::optional<LayerJob>> {
      if (saved(layer)) return std::optional<LayerJob>();
      NMM_ASSIGN(const KnownMlp known, know_mlp(inputs, files, layer));
      return std::optional(losses_job(layer, known.statistics, known.metric));
    };
    NMM_TRY(tasks.run_with_others(label, job, run_losses_job,
                                  [&](int64_t layer, MessageReader& result) {
                                    return save(layer, read_losses_result(result));
                                  }));
    return layers;
  }
  NMM_TRY(tasks.run(label, [&](int64_t layer) -> Status {
    if (saved(layer)) return {};
    NMM_ASSIGN(const KnownMlp known, know_mlp(inputs, files, layer));
    NMM_ASSIGN(auto losses, predict_losses(known.mlp, known.statistics, known.metric));
    return save(layer, std::move(losses));
  }));
  return layers;
}

StatisticsFiles with_usable_losses(StatisticsFiles files, const io::ModelConfig& config,
                                   const fs::path& work) {
  if (!files.losses_are_fixed) return files;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (read_losses(files.losses, layer, config)) continue;
    files.losses = work;
    break;
  }
  return files;
}

Result<std::vector<int32_t>> neuron_order_of(const StatisticsFiles& files, int64_t layer,
                                             const io::ModelConfig& config) {
  auto losses = read_losses(files.losses, layer, config);
  if (!losses) return fail("{}: cannot be read", losses_path(files.losses, layer).string());
  return std::move(losses->order);
}

}  // namespace neuronmm::compress
