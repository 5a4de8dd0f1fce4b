#include "compress/factors/narrow_experts.h"

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "compress/factors/expert_bases.h"
#include "compress/factors/layer_tasks.h"
#include "compress/factors/narrow_file.h"
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
  io::ExpertBases ranks(int64_t layer) const {
    return request_.bases.empty() ? io::ExpertBases{} : request_.bases[static_cast<size_t>(layer)];
  }
  bool is_saved(int64_t layer) const {
    if (ranks(layer) != io::ExpertBases{} && !read_narrow_mlp(bases_path(out_, layer)))
      return false;
    for (int64_t expert = 0; expert < std::ssize(widths(layer)); ++expert) {
      if (!read_narrow_mlp(narrowed_expert_path(out_, layer, expert))) return false;
    }
    return true;
  }

  Status narrow_layer(int64_t layer) const {
    if (widths(layer).empty()) return {};
    NMM_ASSIGN(const auto weights, model::layer_weights(inputs_.checkpoint, inputs_.config, layer));
    const auto& experts = weights.mixture->experts;
    NMM_ASSIGN(const BasisFit fit, fit_to_bases(layer, experts));
    for (int64_t expert = 0; expert < std::ssize(widths(layer)); ++expert) {
      if (read_narrow_mlp(narrowed_expert_path(out_, layer, expert))) continue;
      if (interrupted()) return interrupted_error(fmt::format("{} experts are done", expert));
      const auto& mlp = experts[static_cast<size_t>(expert)];
      const Status narrowed = narrow(layer, expert, mlp, fit);
      if (!narrowed.ok()) return fail("expert {}: {}", expert, narrowed.error().message);
    }
    return {};
  }

  // Returns the fit to the layer's bases, which are read if they are saved, and otherwise made.
  Result<BasisFit> fit_to_bases(int64_t layer, const std::vector<ops::MlpWeight>& experts) const {
    if (ranks(layer) == io::ExpertBases{}) return BasisFit();
    NMM_ASSIGN(DoubleMatrix in, read_layer_inputs(request_.statistics, layer, inputs_.config));
    std::optional<NarrowMlp> bases = read_narrow_mlp(bases_path(out_, layer));
    if (!bases) {
      NMM_ASSIGN(bases, make_bases(layer, experts, in));
    }
    return BasisFit::make(*bases, in);
  }

  Result<NarrowMlp> make_bases(int64_t layer, const std::vector<ops::MlpWeight>& experts,
                               const DoubleMatrix& in) const {
    SharedEnergies energies(in);
    const auto l = static_cast<size_t>(layer);
    for (size_t e = 0; e < experts.size(); ++e) {
      if (interrupted()) return interrupted_error("the bases of a layer are not made");
      NMM_ASSIGN(MlpData data, read_expert_data(inputs_, request_.statistics, layer,
                                                static_cast<int64_t>(e), experts[e]));
      NMM_ASSIGN(const KeptNeurons kept,
                 keep_neurons(std::move(data.mlp), std::move(data.statistics.neurons), data.metric,
                              request_.orders[l][e], shape_of(layer, e, experts[e])));
      energies.add(kept, data.metric.out(0, 0), request_.uses[l][e].squares);
    }
    const StoredFormat stored = format_of(experts.front());
    NMM_ASSIGN(NarrowMlp bases, energies.bases(ranks(layer), stored));
    NMM_TRY(save(bases_path(out_, layer), bases, stored));
    return bases;
  }

  io::MlpShape shape_of(int64_t layer, size_t expert, const ops::MlpWeight& weights) const {
    const int64_t width = widths(layer)[expert];
    return {.neurons = width < weights.neurons() ? width : 0};
  }
  StoredFormat format_of(const ops::MlpWeight& weights) const {
    return stored_format(request_.weights, written_dtype(weights.gate.w_t.dtype));
  }

  Status narrow(int64_t layer, int64_t expert, const ops::MlpWeight& weights,
                const BasisFit& fit) const {
    const auto e = static_cast<size_t>(expert);
    NMM_ASSIGN(MlpData data,
               read_expert_data(inputs_, request_.statistics, layer, expert, weights));
    const StoredFormat stored = format_of(weights);
    NMM_ASSIGN(NarrowMlp mlp,
               narrow_mlp(std::move(data.mlp), std::move(data.statistics), data.metric,
                          request_.orders[static_cast<size_t>(layer)][e],
                          shape_of(layer, e, weights), stored));
    fit.apply(mlp);
    return save(narrowed_expert_path(out_, layer, expert), mlp, stored);
  }

  static Status save(const fs::path& path, const NarrowMlp& mlp, const StoredFormat& stored) {
    const DType dtype = staged_dtype(stored);
    for (const MlpTensor& tensor : mlp.tensors) {
      NMM_TRY(check_range(tensor.name, tensor.values, dtype));
    }
    return write_narrow_mlp(path, mlp, dtype);
  }

  const CompressionInputs& inputs_;
  const NarrowExpertsRequest& request_;
  const fs::path& out_;
};

}  // namespace

Result<MlpData> read_expert_data(const CompressionInputs& inputs, const fs::path& statistics,
                                 int64_t layer, int64_t expert, const ops::MlpWeight& weights) {
  MlpData data;
  NMM_ASSIGN(data.mlp, DenseMlp::read(weights));
  NMM_ASSIGN(data.statistics, read_expert_statistics(statistics, layer, expert, inputs.config));
  data.metric = local_metric(data.statistics, data.mlp.down_t);
  return data;
}

Status narrow_experts(const CompressionInputs& inputs, const NarrowExpertsRequest& request,
                      const fs::path& out) {
  return NarrowingOfExperts(inputs, request, out).run();
}

fs::path bases_path(const fs::path& folder, int64_t layer) {
  return folder / fmt::format("bases-{:05}.safetensors", layer);
}

fs::path narrowed_expert_path(const fs::path& folder, int64_t layer, int64_t expert) {
  return folder / fmt::format("expert-{:05}-{:05}.safetensors", layer, expert);
}

}  // namespace neuronmm::compress
