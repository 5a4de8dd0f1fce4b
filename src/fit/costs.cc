#include "fit/costs.h"

#include <map>
#include <tuple>

#include "base/task_labels.h"
#include "eval/latency.h"
#include "fit/model_latency.h"
#include "fit/part_timing.h"
#include "model/transformer.h"

namespace neuronmm::fit {
namespace {

constexpr int64_t kRuns = 3;

Result<Seconds> time_model(const model::Transformer& model, Progress& progress) {
  const model::Transformer* const models[] = {&model};
  NMM_ASSIGN(const auto measured,
             eval::measure_latency(models, latency_settings(model.config(), kRuns), progress));
  return lower_quartile_seconds(measured.models[0]);
}

// Returns the dtype of weights that are not rounded.
Result<DType> dtype_of(const io::Checkpoint& checkpoint) {
  const std::string name = model::tensor_prefix(checkpoint) + "layers.0.mlp.gate_proj.weight";
  const auto found = checkpoint.tensors().find(name);
  if (found == checkpoint.tensors().end()) {
    return fail("{}: tensor {} is missing", checkpoint.folder().string(), name);
  }
  return written_dtype(found->second.dtype);
}

}  // namespace

Result<Costs> Costs::measure(const std::filesystem::path& dense, const Device& device,
                             Progress& progress) {
  NMM_ASSIGN(auto backend, device.make());
  Costs costs;
  DType dtype = DType::kF32;
  io::ModelConfig config;
  {
    NMM_ASSIGN(const auto model, model::Transformer::load(dense, *backend));
    config = model.config();
    NMM_ASSIGN(dtype, dtype_of(model.checkpoint()));
    NMM_ASSIGN(costs.dense_, time_model(model, progress));
  }
  costs.sizes_ = {config.hidden_size, config.intermediate_size};
  const auto timing = std::make_shared<const PartTiming>(config, dtype, device, std::move(backend));
  if (device.simulated) costs.cache_simulated_mlps(timing);
  costs.measure_parts(*timing, progress);
  const auto mlp = costs.mlp({}, kAsIs, kAsIs);
  if (!mlp) return fail("{}: the device cannot run its MLPs", dense.string());
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const Seconds parts = layers * (costs.attention(kAsIs) + *mlp) + costs.head(kAsIs);
  costs.rest_ = positive(costs.dense_ + -1.0 * parts);
  return costs;
}

void Costs::measure_parts(const PartTiming& timing, Progress& progress) {
  const size_t first = simulated_mlp_ ? kAsIs : 0;
  const int64_t half = std::max<int64_t>(1, sizes_.inner / 2);
  const auto full_parameters = static_cast<double>(sizes_.parameters({}));
  const auto half_parameters = static_cast<double>(sizes_.parameters({.neurons = half}));
  progress.start(task::kTimingFormats, static_cast<int64_t>(kFormats + 1 - first));
  for (size_t format = first; format <= kAsIs; ++format) {
    attention_[format] = timing.attention(format);
    head_[format] = timing.head(format);
    if (!simulated_mlp_) {
      const Seconds full_seconds = timing.mlp({}, format);
      const Seconds half_seconds = timing.mlp({.neurons = half}, format);
      const Seconds slope = (1.0 / (full_parameters - half_parameters)) *
                            positive(full_seconds + -1.0 * half_seconds);
      mlps_[format] = {full_seconds + -full_parameters * slope, slope};
    }
    progress.update(static_cast<int64_t>(format - first + 1));
  }
  progress.finish();
}

void Costs::cache_simulated_mlps(std::shared_ptr<const PartTiming> timing) {
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
  auto cache = std::make_shared<std::map<Key, std::optional<Seconds>>>();
  simulated_mlp_ = [timing = std::move(timing), cache](const io::MlpShape& shape) {
    const Key key = {shape.gate, shape.up, shape.down, shape.input, shape.neurons};
    const auto [found, first] = cache->try_emplace(key);
    if (first) found->second = timing->simulated_mlp(shape);
    return found->second;
  };
}

std::optional<Seconds> Costs::mlp(const io::MlpShape& shape, size_t gate, size_t down) const {
  if (simulated_mlp_) return simulated_mlp_(shape);
  const auto parameters = static_cast<double>(sizes_.parameters(shape));
  const auto at = [&](size_t format) {
    return positive(mlps_[format].fixed + parameters * mlps_[format].per_parameter);
  };
  return 2.0 / 3.0 * at(gate) + 1.0 / 3.0 * at(down);
}

}  // namespace neuronmm::fit
