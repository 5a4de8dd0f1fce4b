#include "tensor_parallel/plan.h"

#include <algorithm>
#include <numeric>

#include "tensor_parallel/shared_mixture.h"

namespace neuronmm::tensor_parallel {
namespace {

constexpr int64_t kPrompt = 512, kDecoded = 512;

struct Size {
  int64_t bytes = 0, parameters = 0;
  void add(const ops::WeightView& weight, double share = 1.0) {
    if (weight.empty()) return;
    bytes += static_cast<int64_t>(static_cast<double>(weight.stored_bytes()) * share);
    parameters += static_cast<int64_t>(static_cast<double>(weight.size()) * share);
  }
};

bool is_quantized(const ops::MlpWeight& weight) {
  return weight.gate.quantized() || weight.up.quantized() || weight.down.quantized();
}

// Returns the size of all matrices if this process has `share` of the parts that are divided by
// neurons and `of_strips` of the parts that make the strips.
Size size_here(const ops::MlpWeight& weight, double share, double of_strips) {
  Size size;
  size.add(weight.in.map_t, of_strips);
  for (const ops::LinearWeight* linear : {&weight.gate, &weight.up}) {
    size.add(linear->in.map_t, of_strips);
    size.add(linear->u_t, weight.in.empty() ? of_strips : 1.0);
    size.add(linear->low_rank() ? linear->v_t : linear->w_t, share);
  }
  size.add(weight.down.low_rank() ? weight.down.u_t : weight.down.w_t, share);
  size.add(weight.down.v_t);
  size.add(weight.down.out.map_t);
  return size;
}

}  // namespace

const char* layout_name(MlpLayout layout) {
  switch (layout) {
    case MlpLayout::kSumOutput:
      return "sum y";
    case MlpLayout::kSumStrip:
      return "sum strip";
    case MlpLayout::kGatherStrips:
      break;
  }
  return "gather strips";
}

double LayoutCost::bytes_per_token(int processes, parallel::Wire wire) const {
  return static_cast<double>((processes - 1) * values_per_token * bytes_of(wire)) / processes;
}

double LayoutCost::seconds(const Machine& machine, int64_t tokens, int processes,
                           parallel::Wire wire) const {
  const auto rows = static_cast<double>(tokens);
  const double reading = static_cast<double>(weight_bytes) / machine.read_bytes_per_s;
  const double computing = 2.0 * static_cast<double>(multiply_adds) * rows / machine.flops;
  const double sending = collectives * machine.latency_s +
                         rows * bytes_per_token(processes, wire) / machine.bytes_per_s;
  return std::max(reading, computing) + sending;
}

Share neurons_of(const ops::MlpWeight& weight, int process, int processes) {
  const int64_t neurons = weight.neurons();
  int64_t unit = ops::kQuantGroup;
  if (!is_quantized(weight)) {
    for (const int64_t finer : {64, 32}) {
      if (neurons % (unit * processes) != 0 && neurons % (finer * processes) == 0) unit = finer;
    }
    if (neurons < unit * processes) unit = 1;
  }
  return share_in_units(neurons, unit, process, processes);
}

std::vector<int64_t> strip_ranks(const ops::MlpWeight& weight) {
  if (!weight.in.empty()) return {weight.in.rank()};
  std::vector<int64_t> ranks;
  for (const ops::LinearWeight* linear : {&weight.gate, &weight.up}) {
    if (linear->rank() > 0) ranks.push_back(linear->rank());
  }
  return ranks;
}

std::vector<LayoutCost> layout_costs(const ops::MlpWeight& weight, int process, int processes) {
  const double share = static_cast<double>(neurons_of(weight, process, processes).count) /
                       static_cast<double>(weight.neurons());
  const auto cost = [&](MlpLayout layout, int collectives, int64_t values, double of_strips) {
    const Size size = size_here(weight, share, of_strips);
    return LayoutCost{layout, collectives, values, size.bytes, size.parameters};
  };
  const int64_t rank = weight.down.rank(), width = weight.down.out_features();
  std::vector<LayoutCost> costs = {cost(MlpLayout::kSumOutput, 1, 2 * width, 1.0)};
  if (rank > 0) costs.push_back(cost(MlpLayout::kSumStrip, 1, 2 * rank, 1.0));
  const std::vector<int64_t> strips = strip_ranks(weight);
  if (strips.empty()) return costs;
  const int64_t gathered = std::accumulate(strips.begin(), strips.end(), int64_t{0});
  costs.push_back(
      cost(MlpLayout::kGatherStrips, 2, gathered + 2 * (rank > 0 ? rank : width), 1.0 / processes));
  return costs;
}

LayoutCost mixture_cost(const ops::MixtureWeight& weight, int process, int processes) {
  const Share here = experts_of(weight, process, processes);
  Size stored, of_all;
  for (int64_t i = 0; i < std::ssize(weight.experts); ++i) {
    const Size size = size_here(weight.experts[static_cast<size_t>(i)], 1.0, 1.0);
    of_all.parameters += size.parameters;
    if (i >= here.first && i < here.end()) stored.bytes += size.bytes;
  }
  Size shared;  // every process computes the router and the bases
  for (const ops::LinearWeight* const linear : {&weight.router, &weight.input, &weight.output}) {
    shared.add(linear->w_t);
  }
  const int64_t chosen = of_all.parameters / weight.count() * weight.active / processes;
  return {MlpLayout::kSumOutput, 1, 2 * weight.in_features(), stored.bytes + shared.bytes,
          chosen + shared.parameters};
}

LayoutCost choose_layout(const std::vector<LayoutCost>& costs, const Machine& machine,
                         int processes, parallel::Wire wire) {
  const auto seconds = [&](const LayoutCost& cost) {
    return cost.seconds(machine, kPrompt, processes, wire) +
           kDecoded * cost.seconds(machine, 1, processes, wire);
  };
  return *std::ranges::min_element(costs, {}, seconds);
}

}  // namespace neuronmm::tensor_parallel
