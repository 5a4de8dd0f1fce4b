#include "compress/factors/narrow_mlp.h"

#include <algorithm>
#include <map>

#include "base/threads.h"
#include "compress/factors/fewer_neurons.h"
#include "compress/factors/pivoting.h"
#include "compress/rounding/factor_rounding.h"

namespace neuronmm::compress {
namespace {

using NamedWeight = std::pair<std::string, InputWeight>;

void add_weight(const std::string& which, DoubleMatrix values, NarrowMlp& out) {
  out.tensors.push_back({which + "_proj.weight", std::move(values), {}});
}

void add_bias(const std::string& which, const DoubleMatrix& row, NarrowMlp& out) {
  if (row.size() > 0) out.tensors.push_back({which + std::string(kBiasEnding), row, {}});
}

void add_pivots(const std::string& which, std::vector<int32_t> index, DoubleMatrix map,
                double largest, NarrowMlp& out) {
  out.largest_map = std::max(out.largest_map, largest);
  out.tensors.push_back({which + "_pivots", {}, std::move(index)});
  out.tensors.push_back({which + "_pivot_proj.weight", std::move(map), {}});
}

// Narrows the input of gate and up with shared pivots, or the input of one of them with pivots of
// its own.
Status narrow_together(const std::string& which, const std::vector<NamedWeight>& weights,
                       const DoubleMatrix& gram, const DoubleMatrix& root, int64_t rank,
                       const StoredFormat& stored, NarrowMlp& out) {
  std::vector<InputWeight> inputs;
  for (const auto& [name, weight] : weights) inputs.push_back(weight);
  NMM_ASSIGN(NarrowInput narrow, narrow_input(inputs, gram, root, rank, stored));
  add_pivots(which, std::move(narrow.index), std::move(narrow.d), narrow.largest, out);
  for (size_t i = 0; i < weights.size(); ++i) {
    add_weight(weights[i].first, std::move(narrow.weights_t[i]), out);
  }
  return {};
}

}  // namespace

Result<KeptNeurons> keep_neurons(DenseMlp mlp, DoubleMatrix neurons, const MlpMetric& metric,
                                 const std::vector<int32_t>& order, const io::MlpShape& shape) {
  if (shape.neurons == 0) {
    return KeptNeurons{std::move(mlp), metric.gate, metric.up, std::move(neurons)};
  }
  std::vector<int32_t> kept(order.begin(), order.begin() + shape.neurons);
  std::ranges::sort(kept);
  NMM_ASSIGN(DoubleMatrix down_t, down_of_fewer_neurons(mlp.down_t, neurons, kept));
  DenseMlp few{mlp.gate_t.rows_at(kept), mlp.up_t.rows_at(kept), std::move(down_t)};
  if (mlp.gate_bias.size() > 0) {
    few.gate_bias = mlp.gate_bias.columns_at(kept);
    few.up_bias = mlp.up_bias.columns_at(kept);
    few.down_bias = std::move(mlp.down_bias);
  }
  return KeptNeurons{std::move(few), elements_at(metric.gate, kept), elements_at(metric.up, kept),
                     neurons.at(kept, kept)};
}

Status narrow_inputs(const KeptNeurons& kept, const DoubleMatrix& gram, const io::MlpShape& shape,
                     const StoredFormat& stored, NarrowMlp& out) {
  // Narrowing changes what multiplies the input and never what is added to the product.
  add_bias("gate", kept.mlp.gate_bias, out);
  add_bias("up", kept.mlp.up_bias, out);
  add_bias("down", kept.mlp.down_bias, out);
  DoubleMatrix root;
  if (shape.input > 0 || shape.gate > 0 || shape.up > 0) {
    NMM_ASSIGN(root, whitening_root(gram));
  }
  const NamedWeight gate = {"gate", {&kept.mlp.gate_t, kept.gate_metric}};
  const NamedWeight up = {"up", {&kept.mlp.up_t, kept.up_metric}};
  if (shape.input > 0) {
    return narrow_together("input", {gate, up}, gram, root, shape.input, stored, out);
  }
  for (const auto& [weight, rank] : {std::pair(gate, shape.gate), std::pair(up, shape.up)}) {
    if (rank == 0) {
      add_weight(weight.first, *weight.second.w_t, out);
    } else {
      NMM_TRY(narrow_together(weight.first, {weight}, gram, root, rank, stored, out));
    }
  }
  return {};
}

Status narrow_down(DoubleMatrix down_t, const DoubleMatrix& gram, const MlpMetric& metric,
                   const io::MlpShape& shape, const StoredFormat& stored, NarrowMlp& out) {
  if (shape.down == 0) {
    add_weight("down", std::move(down_t), out);
    return {};
  }
  // The eigendecomposition runs on one thread, and the product does not depend on it, so they run
  // at the same time.
  DoubleMatrix gram_out;
  Result<DoubleMatrix> metric_root = DoubleMatrix();
  run_on_threads(2, [&](int64_t task) {
    if (task == 0) {
      metric_root = whitening_root(metric.out);
    } else {
      gram_out = product_with_transposed(multiply(down_t, gram), down_t);
    }
  });
  if (!metric_root.ok()) return metric_root.error();
  NMM_ASSIGN(NarrowOutput narrow,
             narrow_output(down_t, gram_out, metric.out, *metric_root, shape.down, stored));
  add_weight("down", std::move(narrow.w_t), out);
  add_pivots("down", std::move(narrow.index), std::move(narrow.c), narrow.largest, out);
  return {};
}

Result<NarrowMlp> narrow_mlp(DenseMlp mlp, MlpStatistics statistics, const MlpMetric& metric,
                             const std::vector<int32_t>& order, const io::MlpShape& shape,
                             const StoredFormat& stored) {
  NMM_ASSIGN(KeptNeurons kept,
             keep_neurons(std::move(mlp), std::move(statistics.neurons), metric, order, shape));
  NarrowMlp out;
  NMM_TRY(narrow_inputs(kept, statistics.in, shape, stored, out));
  kept.mlp.gate_t = kept.mlp.up_t = {};
  NMM_TRY(narrow_down(std::move(kept.mlp.down_t), kept.gram, metric, shape, stored, out));
  return out;
}

NarrowMlp with_zero_neurons(const NarrowMlp& mlp, int64_t count) {
  NarrowMlp out{{}, mlp.largest_map};
  for (const MlpTensor& tensor : mlp.tensors) {
    NMM_CHECK(tensor.numbers.empty());
    const DoubleMatrix& few = tensor.values;
    const bool down = tensor.name.starts_with("down"), bias = tensor.is_bias();
    DoubleMatrix all(bias || down ? few.rows() : count, bias == down ? few.columns() : count);
    for (int64_t j = 0; j < few.columns(); ++j) {
      std::copy_n(few.column(j), few.rows(), all.column(j));
    }
    out.tensors.push_back({tensor.name, std::move(all), {}});
  }
  return out;
}

NarrowMlp with_factors(const NarrowMlp& pivoted, const StoredFormat& stored) {
  std::map<std::string, const MlpTensor*> by_name;
  for (const MlpTensor& tensor : pivoted.tensors) by_name[tensor.name] = &tensor;
  NarrowMlp out{{}, pivoted.largest_map};
  for (const std::string which : {"gate", "up", "down"}) {
    if (const auto bias = by_name.find(which + std::string(kBiasEnding)); bias != by_name.end()) {
      out.tensors.push_back(*bias->second);
    }
    const auto dense = by_name.find(which + "_proj.weight");
    if (dense == by_name.end()) continue;
    const DoubleMatrix& weight = dense->second->values;
    const auto pivots = by_name.find(which + "_pivots");
    if (pivots == by_name.end()) {
      add_weight(which, weight, out);
      continue;
    }
    const DoubleMatrix& map = by_name.at(which + "_pivot_proj.weight")->values;
    const std::vector<int32_t>& index = pivots->second->numbers;
    FactorPair factors =
        which == "down" ? FactorPair{identity_and_map(index, map), weight}
                        : FactorPair{weight, transposed(identity_and_map(index, transposed(map)))};
    if (const auto* const format = std::get_if<LowBitFormat>(&stored)) {
      factors = fit_to_rounded(std::move(factors.v_t), std::move(factors.u_t), *format);
    }
    add_weight(which + "_v", std::move(factors.u_t), out);
    add_weight(which + "_u", std::move(factors.v_t), out);
  }
  return out;
}

}  // namespace neuronmm::compress
