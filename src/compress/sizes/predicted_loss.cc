#include "compress/sizes/predicted_loss.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/parallel.h"
#include "compress/factors/fewer_neurons.h"
#include "compress/factors/neuron_order.h"
#include "compress/factors/pivoting.h"

namespace neuronmm::compress {
namespace {

double squares(const double* values, int64_t count) {
  return std::inner_product(values, values + count, values, 0.0);
}

// Returns the losses of all numbers of neurons. With C = L·Lᵀ in the order of the neurons, column k
// of added = weighted·L is what neuron k adds to the first k neurons.
std::vector<double> neuron_losses(const DoubleMatrix& added) {
  std::vector<double> loss(static_cast<size_t>(added.columns()) + 1);
  for (int64_t k = added.columns(); k-- > 0;) {
    loss[static_cast<size_t>(k)] =
        loss[static_cast<size_t>(k) + 1] + 0.5 * squares(added.column(k), added.rows());
  }
  return loss;
}

// Neurons in the order in which they are kept.
struct OrderedNeurons {
  std::vector<int32_t> order;
  DoubleMatrix weighted, added;  // [H, I], by the order
  double ridge = 0.0;
};
Result<OrderedNeurons> in_order(const DoubleMatrix& down_t, const DoubleMatrix& neurons,
                                const DoubleMatrix& metric_root) {
  OrderedNeurons found;
  found.weighted = multiply(metric_root, Transpose::kYes, down_t, Transpose::kNo);
  found.ridge = neuron_ridge(neurons);
  {
    DoubleMatrix gram = neurons;
    add_to_diagonal(found.ridge, gram);
    NMM_ASSIGN(found.order, neuron_order(found.weighted, std::move(gram)));
  }
  DoubleMatrix gram = neurons.at(found.order, found.order);
  add_to_diagonal(found.ridge, gram);
  NMM_ASSIGN(const DoubleMatrix factor, cholesky(std::move(gram)));
  found.weighted = found.weighted.columns_at(found.order);
  found.added = multiply_lower(found.weighted, factor);
  return found;
}

// Returns weighted·C·weightedᵀ, where C is the Gram matrix without the ridge. added = weighted·L
// includes the ridge, so its part is subtracted.
DoubleMatrix output_energies(const DoubleMatrix& added, const DoubleMatrix& weighted,
                             double ridge) {
  DoubleMatrix energies = product_with_transposed(weighted, weighted);
  for (int64_t j = 0; j < energies.columns(); ++j) energies.scale_column(j, -ridge);
  add(product_with_transposed(added, added), energies);
  return energies;
}

// Runs the tasks in parallel. Each has an eigendecomposition, which runs on one thread.
Status side_by_side(const std::vector<std::function<Status()>>& tasks) {
  std::vector<Status> done(tasks.size());
  parallel_for(std::ssize(tasks),
               [&](int64_t i) { done[static_cast<size_t>(i)] = tasks[static_cast<size_t>(i)](); });
  for (const Status& status : done) NMM_TRY(status);
  return {};
}

// Returns a task that computes a root of a Gram matrix.
std::function<Status()> root_of(const DoubleMatrix& gram, DoubleMatrix& root) {
  return [&gram, &root]() -> Status {
    NMM_ASSIGN(root, whitening_root(gram));
    return {};
  };
}

// Returns a task that computes the losses of all numbers of input pivots.
std::function<Status()> losses_of(const DoubleMatrix& square, const DoubleMatrix& root,
                                  std::vector<double>& losses) {
  return [&square, &root, &losses]() -> Status {
    NMM_ASSIGN(losses, input_losses(square, root));
    return {};
  };
}

// Predicts the losses of narrower inputs of gate, of up, and of both.
Status predict_inputs(const DenseMlp& mlp, const MlpMetric& metric, const DoubleMatrix& root,
                      PredictedLosses& losses) {
  const DoubleMatrix gate = weighted_square({{&mlp.gate_t, metric.gate}});
  const DoubleMatrix up = weighted_square({{&mlp.up_t, metric.up}});
  DoubleMatrix both = gate;
  add(up, both);
  return side_by_side({losses_of(gate, root, losses.gate), losses_of(up, root, losses.up),
                       losses_of(both, root, losses.input)});
}

}  // namespace

Result<NeuronLosses> predict_neurons(const DoubleMatrix& down_t, const DoubleMatrix& neurons,
                                     const DoubleMatrix& metric_root) {
  NMM_ASSIGN(OrderedNeurons found, in_order(down_t, neurons, metric_root));
  return NeuronLosses{neuron_losses(found.added), std::move(found.order)};
}

Result<PredictedLosses> predict_losses(const DenseMlp& mlp, const MlpStatistics& statistics,
                                       const MlpMetric& metric) {
  PredictedLosses losses;
  DoubleMatrix root, metric_root;
  NMM_TRY(side_by_side({root_of(statistics.in, root), root_of(metric.out, metric_root)}));
  NMM_TRY(predict_inputs(mlp, metric, root, losses));
  NMM_ASSIGN(OrderedNeurons found, in_order(mlp.down_t, statistics.neurons, metric_root));
  losses.order = std::move(found.order);
  losses.neurons = neuron_losses(found.added);
  NMM_ASSIGN(losses.output,
             losses_of_ranks(output_energies(found.added, found.weighted, found.ridge)));
  return losses;
}

}  // namespace neuronmm::compress
