#include "compress/narrow_mlp.h"

#include <algorithm>

#include "compress/factorize.h"

namespace neuronmm::compress {
namespace {

std::vector<double> values_at(const std::vector<double>& values,
                              const std::vector<int32_t>& index) {
  std::vector<double> out;
  for (const int32_t i : index) out.push_back(values[static_cast<size_t>(i)]);
  return out;
}

// Gate, up and down of the neurons that stay, with what is known of them.
struct KeptNeurons {
  DenseMlp mlp;
  std::vector<double> gate_metric, up_metric;
  DoubleMatrix gram_out;  // [H, H], mean of y·yᵀ
};

Result<KeptNeurons> keep_neurons(const DenseMlp& mlp, const MlpStatistics& statistics,
                                 const MlpMetric& metric, std::vector<int32_t> kept) {
  std::ranges::sort(kept);
  KeptNeurons out{{mlp.gate_t.rows_at(kept), mlp.up_t.rows_at(kept), mlp.down_t},
                  values_at(metric.gate, kept),
                  values_at(metric.up, kept),
                  {}};
  DoubleMatrix gram = statistics.neurons;
  if (std::ssize(kept) < mlp.down_t.columns()) {
    NMM_ASSIGN(out.mlp.down_t, down_of_fewer_neurons(mlp.down_t, statistics.neurons, kept));
    gram = gram.rows_at(kept).columns_at(kept);
  }
  const DoubleMatrix& down_t = out.mlp.down_t;
  out.gram_out = multiply(down_t, Transpose::kNo,
                          multiply(gram, Transpose::kNo, down_t, Transpose::kYes), Transpose::kNo);
  return out;
}

class MlpNarrowing {
 public:
  MlpNarrowing(const MlpStatistics& statistics, const MlpMetric& metric, const io::MlpShape& shape,
               DType stored)
      : statistics_(statistics), metric_(metric), shape_(shape), stored_(stored) {}

  Result<NarrowMlp> run(KeptNeurons kept) {
    const InputWeight gate{&kept.mlp.gate_t, kept.gate_metric};
    const InputWeight up{&kept.mlp.up_t, kept.up_metric};
    if (shape_.input > 0) {
      NMM_TRY(narrow_inputs("input", {{"gate", gate}, {"up", up}}, shape_.input));
    } else {
      NMM_TRY(narrow_inputs("gate", {{"gate", gate}}, shape_.gate));
      NMM_TRY(narrow_inputs("up", {{"up", up}}, shape_.up));
    }
    NMM_TRY(narrow_down(kept));
    return std::move(out_);
  }

 private:
  using NamedWeight = std::pair<std::string, InputWeight>;

  void add_weight(const std::string& which, DoubleMatrix values) {
    out_.tensors.push_back({which + "_proj.weight", std::move(values), {}});
  }
  void add_pivots(const std::string& which, std::vector<int32_t> index, DoubleMatrix map,
                  double largest) {
    out_.largest_map = std::max(out_.largest_map, largest);
    out_.tensors.push_back({which + "_pivots", {}, std::move(index)});
    out_.tensors.push_back({which + "_pivot_proj.weight", std::move(map), {}});
  }

  // Gate and up that share pivots, or one of them with its own.
  Status narrow_inputs(const std::string& which, const std::vector<NamedWeight>& weights,
                       int64_t rank) {
    if (rank == 0) {
      for (const auto& [name, weight] : weights) add_weight(name, *weight.w_t);
      return {};
    }
    if (root_.size() == 0) {
      NMM_ASSIGN(root_, whitening_root(statistics_.in));
    }
    std::vector<InputWeight> inputs;
    for (const auto& [name, weight] : weights) inputs.push_back(weight);
    NMM_ASSIGN(NarrowInput narrow, narrow_input(inputs, statistics_.in, root_, rank, stored_));
    add_pivots(which, std::move(narrow.index), std::move(narrow.d), narrow.largest);
    for (size_t i = 0; i < weights.size(); ++i) {
      add_weight(weights[i].first, std::move(narrow.weights_t[i]));
    }
    return {};
  }

  Status narrow_down(KeptNeurons& kept) {
    if (shape_.down == 0) {
      add_weight("down", std::move(kept.mlp.down_t));
      return {};
    }
    NMM_ASSIGN(const DoubleMatrix metric_root, whitening_root(metric_.out));
    NMM_ASSIGN(NarrowOutput narrow, narrow_output(kept.mlp.down_t, kept.gram_out, metric_.out,
                                                  metric_root, shape_.down, stored_));
    add_weight("down", std::move(narrow.w_t));
    add_pivots("down", std::move(narrow.index), std::move(narrow.c), narrow.largest);
    return {};
  }

  const MlpStatistics& statistics_;
  const MlpMetric& metric_;
  const io::MlpShape& shape_;
  DType stored_;
  DoubleMatrix root_;  // of the input's Gram matrix, once it is needed
  NarrowMlp out_;
};

}  // namespace

Result<NarrowMlp> narrow_mlp(const DenseMlp& mlp, const MlpStatistics& statistics,
                             const MlpMetric& metric, const std::vector<int32_t>& order,
                             const io::MlpShape& shape, DType stored) {
  const int64_t count = shape.neurons > 0 ? shape.neurons : std::ssize(order);
  NMM_ASSIGN(KeptNeurons kept,
             keep_neurons(mlp, statistics, metric,
                          std::vector<int32_t>(order.begin(), order.begin() + count)));
  return MlpNarrowing(statistics, metric, shape, stored).run(std::move(kept));
}

}  // namespace neuronmm::compress
