#include "compress/factors/narrow_layers.h"

#include "base/task_labels.h"
#include "compress/factors/down_fit.h"
#include "compress/factors/factor_jobs.h"
#include "compress/factors/layer_tasks.h"
#include "compress/factors/narrow_file.h"
#include "compress/factors/narrow_weights.h"
#include "compress/statistics/data_parallel.h"
#include "model/transformer.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

Result<StoredFormat> layer_format(const CompressionInputs& inputs, const WeightFormats& formats,
                                  int64_t layer) {
  NMM_ASSIGN(const auto weights, model::layer_weights(inputs.checkpoint, inputs.config, layer));
  return stored_format(formats, weights.mlp.gate.w_t.dtype);
}

Status save_layer(const CompressionInputs& inputs, const NarrowRequest& request,
                  const fs::path& out, int64_t layer, const NarrowMlp& mlp) {
  NMM_ASSIGN(const StoredFormat stored, layer_format(inputs, request.weights, layer));
  const DType dtype = staged_dtype(stored);
  const NarrowMlp saved = request.padded > 0          ? with_zero_neurons(mlp, request.padded)
                          : request.pivots_as_factors ? with_factors(mlp, stored)
                                                      : mlp;
  for (const MlpTensor& tensor : saved.tensors) {
    NMM_TRY(check_range(
        fmt::format("{}: layer {} {}", inputs.checkpoint.folder().string(), layer, tensor.name),
        tensor.values, dtype));
  }
  return write_narrow_mlp(narrowed_path(out, layer), saved, dtype);
}

// Narrows all layers by their statistics. The data of each layer goes to a thread, or as a job to a
// process.
class NarrowingByStatistics {
 public:
  NarrowingByStatistics(const CompressionInputs& inputs, const NarrowRequest& request,
                        const fs::path& out)
      : inputs_(inputs), request_(request), out_(out) {}

  Result<std::vector<double>> run() {
    largest_maps_.resize(static_cast<size_t>(inputs_.config.num_hidden_layers));
    NMM_TRY(inputs_.helpers == nullptr ? on_threads() : on_processes());
    return std::move(largest_maps_);
  }

 private:
  Status on_threads() {
    const auto saved = [this](int64_t layer) { return is_saved(layer); };
    return LayerTasks(inputs_).run(kLabel, saved, [this](int64_t layer) -> Status {
      NMM_ASSIGN(MlpData data, read_mlp_data(inputs_, request_.files, layer));
      NMM_ASSIGN(const auto order, request_.order(layer));
      NMM_ASSIGN(const StoredFormat stored, layer_format(inputs_, request_.weights, layer));
      NMM_ASSIGN(const NarrowMlp narrow, narrow_mlp(std::move(data.mlp), std::move(data.statistics),
                                                    data.metric, order, shape(layer), stored));
      return save(layer, narrow);
    });
  }

  Status on_processes() {
    const auto saved = [this](int64_t layer) { return is_saved(layer); };
    const auto job = [this](int64_t layer) -> Result<LayerJob> {
      NMM_ASSIGN(const MlpData data, read_mlp_data(inputs_, request_.files, layer));
      NMM_ASSIGN(const auto order, request_.order(layer));
      NMM_ASSIGN(const StoredFormat stored, layer_format(inputs_, request_.weights, layer));
      return narrow_job(layer, data.statistics, data.metric, order, shape(layer), stored);
    };
    return LayerTasks(inputs_).run_with_helpers(kLabel, saved, job, run_narrow_job,
                                                [this](int64_t layer, MessageReader& result) {
                                                  return save(layer, read_narrow_result(result));
                                                });
  }

  const io::MlpShape& shape(int64_t layer) const {
    return request_.shapes[static_cast<size_t>(layer)];
  }
  bool is_saved(int64_t layer) {
    const auto saved = read_narrow_mlp(narrowed_path(out_, layer));
    if (saved) largest_maps_[static_cast<size_t>(layer)] = saved->largest_map;
    return saved.has_value();
  }
  Status save(int64_t layer, const NarrowMlp& narrow) {
    largest_maps_[static_cast<size_t>(layer)] = narrow.largest_map;
    return save_layer(inputs_, request_, out_, layer, narrow);
  }

  static constexpr const char* kLabel = task::kNarrowing;
  const CompressionInputs& inputs_;
  const NarrowRequest& request_;
  const fs::path& out_;
  std::vector<double> largest_maps_;
};

}  // namespace

Result<MlpData> read_mlp_data(const CompressionInputs& inputs, const StatisticsFiles& files,
                              int64_t layer) {
  MlpData data;
  NMM_ASSIGN(const auto weights, model::layer_weights(inputs.checkpoint, inputs.config, layer));
  NMM_ASSIGN(data.mlp, DenseMlp::read(weights.mlp));
  NMM_ASSIGN(data.statistics, read_statistics(files.statistics, layer, inputs.config));
  if (files.metric.empty()) {
    data.metric = local_metric(data.statistics, data.mlp.down_t);
  } else {
    NMM_ASSIGN(data.metric, read_metric(files.metric, layer, inputs.config));
  }
  return data;
}

Result<std::vector<double>> narrow_layers(const CompressionInputs& inputs,
                                          const NarrowRequest& request, const fs::path& out) {
  return NarrowingByStatistics(inputs, request, out).run();
}

Result<std::vector<double>> narrow_layers_on_text(const CompressionInputs& inputs,
                                                  const NarrowRequest& request,
                                                  const fs::path& out) {
  const DownFit fit{
      .shapes = request.shapes,
      .weights = request.weights,
      .pivots_as_factors = request.pivots_as_factors,
      .read = [&](int64_t layer) { return read_mlp_data(inputs, request.files, layer); },
      .order = request.order,
      .save = [&](int64_t layer,
                  const NarrowMlp& mlp) { return save_layer(inputs, request, out, layer, mlp); },
      .is_saved =
          [&](int64_t layer) { return read_narrow_mlp(narrowed_path(out, layer)).has_value(); }};
  NMM_TRY(fit_downs(inputs, fit, out));
  std::vector<double> largest_maps;
  for (int64_t layer = 0; layer < inputs.config.num_hidden_layers; ++layer) {
    const auto saved = read_narrow_mlp(narrowed_path(out, layer));
    if (!saved) return fail("{}: cannot be read", narrowed_path(out, layer).string());
    largest_maps.push_back(saved->largest_map);
  }
  return largest_maps;
}

fs::path narrowed_path(const fs::path& folder, int64_t layer) {
  return folder / fmt::format("shaped-{:05}.safetensors", layer);
}

WithMlp narrowed_mlps(const CompressionInputs& inputs, const WeightFormats& weights,
                      const fs::path& folder) {
  return [&inputs, weights, folder](int64_t layer, const auto& use) -> Status {
    const auto saved = read_narrow_mlp(narrowed_path(folder, layer));
    if (!saved) return fail("{}: cannot be read", narrowed_path(folder, layer).string());
    NMM_ASSIGN(const StoredFormat stored, layer_format(inputs, weights, layer));
    use(NarrowWeights(*saved, stored, inputs.config.activation).mlp());
    return {};
  };
}

}  // namespace neuronmm::compress
