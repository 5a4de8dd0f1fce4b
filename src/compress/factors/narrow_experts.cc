#include "compress/factors/narrow_experts.h"

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "compress/factors/layer_tasks.h"
#include "compress/factors/narrow_file.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/statistics/expert_statistics.h"
#include "model/layer_weights.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;

// Narrows the experts of all layers.
class NarrowingOfExperts {
 public:
  NarrowingOfExperts(const CompressionInputs& inputs, const NarrowExpertsRequest& request,
                     const fs::path& out)
      : inputs_(inputs), request_(request), out_(out) {}

  Status run() const {
    return LayerTasks(inputs_).run(
        task::kNarrowing, [this](int64_t layer) { return is_saved(layer); },
        [this](int64_t layer) { return narrow_layer(layer); });
  }

 private:
  const std::vector<int64_t>& widths(int64_t layer) const {
    return request_.widths[static_cast<size_t>(layer)];
  }
  bool is_saved(int64_t layer) const {
    for (int64_t expert = 0; expert < std::ssize(widths(layer)); ++expert) {
      if (!read_narrow_mlp(narrowed_expert_path(out_, layer, expert))) return false;
    }
    return true;
  }

  Status narrow_layer(int64_t layer) const {
    if (widths(layer).empty()) return {};
    NMM_ASSIGN(const auto weights, model::layer_weights(inputs_.checkpoint, inputs_.config, layer));
    for (int64_t expert = 0; expert < std::ssize(widths(layer)); ++expert) {
      if (read_narrow_mlp(narrowed_expert_path(out_, layer, expert))) continue;
      if (interrupted()) return interrupted_error(fmt::format("{} experts are done", expert));
      const auto& mlp = weights.mixture->experts[static_cast<size_t>(expert)];
      const Status narrowed = narrow(layer, expert, mlp);
      if (!narrowed.ok()) return fail("expert {}: {}", expert, narrowed.error().message);
    }
    return {};
  }

  Status narrow(int64_t layer, int64_t expert, const ops::MlpWeight& weights) const {
    const auto e = static_cast<size_t>(expert);
    NMM_ASSIGN(ExpertData data,
               read_expert_data(inputs_, request_.statistics, layer, expert, weights));
    const int64_t width = widths(layer)[e];
    const io::MlpShape shape = {.neurons = width < weights.neurons() ? width : 0};
    const StoredFormat stored =
        stored_format(request_.weights, written_dtype(weights.gate.w_t.dtype));
    NMM_ASSIGN(const NarrowMlp mlp,
               narrow_mlp(std::move(data.mlp), std::move(data.statistics), data.metric,
                          request_.orders[static_cast<size_t>(layer)][e], shape, stored));
    const DType dtype = staged_dtype(stored);
    for (const MlpTensor& tensor : mlp.tensors) {
      NMM_TRY(check_range(tensor.name, tensor.values, dtype));
    }
    return write_narrow_mlp(narrowed_expert_path(out_, layer, expert), mlp, dtype);
  }

  const CompressionInputs& inputs_;
  const NarrowExpertsRequest& request_;
  const fs::path& out_;
};

}  // namespace

Result<ExpertData> read_expert_data(const CompressionInputs& inputs, const fs::path& statistics,
                                    int64_t layer, int64_t expert, const ops::MlpWeight& weights) {
  ExpertData data;
  NMM_ASSIGN(data.mlp, DenseMlp::read(weights));
  NMM_ASSIGN(data.statistics, read_expert_statistics(statistics, layer, expert, inputs.config));
  data.metric = local_metric(data.statistics, data.mlp.down_t);
  return data;
}

Status narrow_experts(const CompressionInputs& inputs, const NarrowExpertsRequest& request,
                      const fs::path& out) {
  return NarrowingOfExperts(inputs, request, out).run();
}

fs::path narrowed_expert_path(const fs::path& folder, int64_t layer, int64_t expert) {
  return folder / fmt::format("expert-{:05}-{:05}.safetensors", layer, expert);
}

}  // namespace neuronmm::compress
