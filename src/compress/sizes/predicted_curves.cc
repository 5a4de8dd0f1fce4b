#include "compress/sizes/predicted_curves.h"

#include "base/task_labels.h"
#include "compress/factors/layer_tasks.h"
#include "compress/factors/narrow_layers.h"
#include "compress/sizes/loss_job.h"
#include "compress/sizes/losses_file.h"
#include "io/atomic_file.h"

namespace neuronmm::compress {

namespace fs = std::filesystem;

Result<std::vector<PredictedLosses>> predicted_curves(const CompressionInputs& inputs,
                                                      const StatisticsFiles& files) {
  NMM_TRY(io::make_folder(files.losses));
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
  LayerTasks tasks(inputs);
  const std::string label = task::kPredicting;
  if (inputs.helpers != nullptr) {
    const auto job = [&](int64_t layer) -> Result<LayerJob> {
      NMM_ASSIGN(const MlpData data, read_mlp_data(inputs, files, layer));
      return losses_job(layer, data.statistics, data.metric);
    };
    NMM_TRY(tasks.run_with_helpers(label, saved, job, run_losses_job,
                                   [&](int64_t layer, MessageReader& result) {
                                     return save(layer, read_losses_result(result));
                                   }));
    return layers;
  }
  NMM_TRY(tasks.run(label, saved, [&](int64_t layer) -> Status {
    NMM_ASSIGN(const MlpData data, read_mlp_data(inputs, files, layer));
    NMM_ASSIGN(auto losses, predict_losses(data.mlp, data.statistics, data.metric));
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
