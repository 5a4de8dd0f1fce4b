// This file implements `neuronmm paper fused-mlp`. The figure compares the whole SwiGLU layer as
// one kernel with the same layer as several kernels that pass their results through HBM, in the
// timing model.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compress/sizes/rank.h"
#include "kernel/tuned.h"
#include "paper/paper_figures.h"
#include "paper/paper_models.h"
#include "report_writer.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::apps {
namespace {

using kernels::Kernel;
using kernels::KernelShape;
using kernels::Tiling;
using Json = nlohmann::ordered_json;

constexpr double kMlpRatio = 0.2;

// The cost of a kernel, or of several kernels one after the other.
struct MlpCost {
  double ms = 0;
  int64_t bytes = 0;
};
MlpCost operator+(const MlpCost& a, const MlpCost& b) { return {a.ms + b.ms, a.bytes + b.bytes}; }

struct MlpRow {
  std::string model;
  KernelShape shape;  // For the dense layer, r is 0.
  MlpCost three_kernels = {};
  // Gate and up are one kernel. The dense layer has no such kernel.
  MlpCost two_kernels = {};
  MlpCost fused = {};
  bool h_on_chip = false;

  double gain() const { return best_of_several().ms / fused.ms; }
  const MlpCost& best_of_several() const {
    return two_kernels.ms > 0 && two_kernels.ms < three_kernels.ms ? two_kernels : three_kernels;
  }
};

// Tunes and simulates kernels of one device.
class Timer {
 public:
  explicit Timer(const simulator::DeviceSpec& device) : device_(device) {}

  Result<tuner::Measurement> tuned(std::string_view kernel, const KernelShape& shape,
                                   kernels::Layout left = kernels::Layout::kTransposed) const {
    NMM_ASSIGN(const Kernel* found, kernels::find_kernel(kernel));
    const tuner::Problem problem{
        .kernel = found, .shape = shape, .options = {.left = left}, .device = device_};
    Progress silent;
    NMM_ASSIGN(const tuner::Outcome outcome, tune_with_cache(problem, 1, "", silent));
    return outcome.best.front();
  }

  // Simulates a kernel at a given tiling. The fused kernel uses the tilings of its two parts.
  Result<simulator::Timing> simulate(std::string_view kernel, const KernelShape& shape,
                                     const Tiling& tiling) const {
    NMM_ASSIGN(const Kernel* found, kernels::find_kernel(kernel));
    NMM_ASSIGN(const tile::Program program, kernels::make_program(*found, shape, tiling, {}));
    return simulator::simulate(program, device_);
  }

 private:
  simulator::DeviceSpec device_;
};

MlpCost cost_of(const tuner::Measurement& m) { return {m.latency_ns * 1e-6, m.hbm_bytes}; }

// Times the whole low-rank layer as one kernel, at the tilings that are best for its parts. Keeps
// the faster of the two variants: H on the chip or H through HBM.
Status time_fused_low_rank(const Timer& timer, const Tiling& up, const Tiling& down, MlpRow& row) {
  NMM_ASSIGN(const Kernel* kernel, kernels::find_kernel("mlp"));
  NMM_ASSIGN(Tiling tiling, kernels::tiling_of(*kernel, {}));
  for (const auto& [name, value] : up.values()) tiling.set("up." + name, value);
  for (const auto& [name, value] : down.values()) tiling.set("down." + name, value);
  for (const bool on_chip : {false, true}) {
    tiling.set("h_on_chip", on_chip);
    const auto timing = timer.simulate("mlp", row.shape, tiling);
    if (!timing && on_chip) continue;  // SBUF cannot hold H of these row blocks.
    if (!timing) return timing.error();
    const MlpCost cost{timing->summary.milliseconds(), timing->summary.hbm_bytes()};
    if (row.fused.ms > 0 && row.fused.ms <= cost.ms) continue;
    row.fused = cost;
    row.h_on_chip = on_chip;
  }
  return {};
}

Result<MlpRow> low_rank_row(const Timer& timer, std::string_view model, const KernelShape& shape) {
  MlpRow row{.model = std::string(model), .shape = shape};
  // Down takes H from the intermediate size back to the hidden size.
  const KernelShape down_shape{.M = shape.M, .K = shape.N, .r = shape.r, .N = shape.K};
  NMM_ASSIGN(const auto gate, timer.tuned("xuv_transposed", shape));
  NMM_ASSIGN(const auto up, timer.tuned("mlp_up", shape));
  NMM_ASSIGN(const auto down, timer.tuned("xtuv", down_shape));
  // Gate and up have equal shapes and equal times.
  row.three_kernels = cost_of(gate) + cost_of(gate) + cost_of(down);
  row.two_kernels = cost_of(up) + cost_of(down);
  NMM_TRY(time_fused_low_rank(timer, up.tiling, down.tiling, row));
  return row;
}

// Times the dense layer. X is natural, as in a model. The faster of two matmul kernels counts.
Result<MlpRow> dense_row(const Timer& timer, std::string_view model, const KernelShape& shape) {
  MlpRow row{.model = std::string(model), .shape = shape, .h_on_chip = true};
  row.shape.r = 0;
  const auto matmul = [&](int64_t in, int64_t out) -> Result<MlpCost> {
    const KernelShape product{.M = shape.M, .K = in, .r = 0, .N = out};
    MlpCost best;
    for (const char* kernel : {"matmul_fixed_order", "matmul_optimized"}) {
      NMM_ASSIGN(const auto tuned, timer.tuned(kernel, product, kernels::Layout::kNatural));
      if (best.ms == 0 || cost_of(tuned).ms < best.ms) best = cost_of(tuned);
    }
    return best;
  };
  NMM_ASSIGN(const MlpCost gate, matmul(shape.K, shape.N));
  NMM_ASSIGN(const MlpCost down, matmul(shape.N, shape.K));
  row.three_kernels = gate + gate + down;
  NMM_ASSIGN(const auto fused, timer.tuned("dense_mlp", row.shape));
  row.fused = cost_of(fused);
  return row;
}

// A missing variant is printed as "-".
std::string line(const MlpRow& row) {
  const auto ms = [](const MlpCost& cost) {
    return cost.ms > 0 ? fmt::format("{:.4f}", cost.ms) : "-";
  };
  const auto mib = [](const MlpCost& cost) {
    return cost.ms > 0 ? fmt::format("{:.1f}", static_cast<double>(cost.bytes) / kMiB) : "-";
  };
  return fmt::format(
      "{:<14}{:>6}{:>7} {:>10}{:>10}{:>10}{:>8.3f}x{:>11}{:>10}{:>10}   {}\n", row.model,
      row.shape.M, row.shape.r > 0 ? fmt::format("{}", row.shape.r) : "dense",
      ms(row.three_kernels), ms(row.two_kernels), ms(row.fused), row.gain(), mib(row.three_kernels),
      mib(row.two_kernels), mib(row.fused), row.h_on_chip ? "on chip" : "HBM");
}

Json cost_json(const MlpCost& cost) { return {{"latency_ms", cost.ms}, {"hbm_bytes", cost.bytes}}; }

Json row_json(const MlpRow& row) {
  Json json = {{"model", row.model},
               {"shape", {row.shape.M, row.shape.K, row.shape.r, row.shape.N}},
               {"three_kernels", cost_json(row.three_kernels)},
               {"fused", cost_json(row.fused)},
               {"h_on_chip", row.h_on_chip},
               {"gain", row.gain()}};
  if (row.two_kernels.ms > 0) json["two_kernels"] = cost_json(row.two_kernels);
  return json;
}

constexpr const char* kNote =
    "\nthree: gate, up and down, a kernel each; two: mlp_up (gate, up, silu and the product in "
    "one)\nand down; each at its tuned tiling. What silu and the product cost between three "
    "kernels is\n"
    "not counted. fused: one kernel, low-rank at the tilings of the two, dense at its tuned one.\n"
    "gain: the faster of three and two over fused. H: where silu(gate)*up goes when fused. K is "
    "the\nhidden size, N the intermediate size, ranks are those of ratio 0.2.\n";

// Every low-rank row is followed by the dense row of the same group.
BarChart chart_of(const std::vector<MlpRow>& rows) {
  BarChart chart{.title = "Whole MLPs, bf16, trn1, simulated: gain of one kernel over several",
                 .unit = "latency of several / latency of one",
                 .groups_name = "model, M"};
  chart.series = {{"low-rank", "#4f9a4f", false, {}}, {"dense", "#4878a8", false, {}}};
  for (const MlpRow& row : rows) {
    const bool dense = row.shape.r == 0;
    if (!dense) chart.groups.push_back(fmt::format("{} {}", row.model, row.shape.M));
    chart.series[dense].values.push_back(row.gain());
  }
  return chart;
}

// Returns the rows of six models at three numbers of tokens, unless the user has chosen others.
Result<std::vector<MlpRow>> rows_of(const Choice& choice) {
  const std::vector<std::string> models = models_or_all(choice.models);
  NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device("trn1"));
  const Timer timer(device);
  const std::vector<int64_t> sizes =
      choice.rows.empty() ? std::vector<int64_t>{128, 512, 2048} : choice.rows;
  Progress progress(stderr);
  progress.start("simulating MLPs", std::ssize(models) * std::ssize(sizes) * 2);
  std::vector<MlpRow> rows;
  for (const std::string& model : models) {
    NMM_ASSIGN(const io::ModelConfig config, paper_model(model));
    KernelShape shape{.M = 0, .K = config.hidden_size, .r = 0, .N = config.intermediate_size};
    shape.r = compress::aligned_rank(shape.K, shape.N, {.ratio = kMlpRatio});
    for (const int64_t m : sizes) {
      shape.M = m;
      NMM_ASSIGN(MlpRow low_rank, low_rank_row(timer, model, shape));
      NMM_ASSIGN(MlpRow dense, dense_row(timer, model, shape));
      rows.push_back(std::move(low_rank));
      rows.push_back(std::move(dense));
      progress.update(std::ssize(rows), fmt::format("{}, M {}", model, m));
    }
  }
  return rows;
}

}  // namespace

Result<Figure> fused_mlp_figure(const Choice& choice) {
  NMM_ASSIGN(const std::vector<MlpRow> rows, rows_of(choice));
  Figure figure;
  figure.text =
      "simulated (no Trainium was used): the whole MLP, bf16 with fp32 sums, one core of trn1\n\n";
  figure.text += fmt::format(
      "{:<27} {:^30}{:>9}{:^31}\n{:<14}{:>6}{:>7} {:>10}{:>10}{:>10}{:>9}{:>11}{:>10}{:>10}   {}\n",
      "", "latency, ms", "", "HBM, MiB", "model", "M", "rank", "three", "two", "fused", "gain",
      "three", "two", "fused", "H");
  Json json = Json::array();
  for (const MlpRow& row : rows) {
    figure.text += line(row);
    json.push_back(row_json(row));
  }
  // The worst case has a line of its own, because it shows whether fusing ever costs time.
  const auto least =
      std::min_element(rows.begin(), rows.end(),
                       [](const MlpRow& a, const MlpRow& b) { return a.gain() < b.gain(); });
  figure.text += fmt::format("least gain: {:.4f}x ({}, M {})\n{}", least->gain(), least->model,
                             least->shape.M, kNote);
  figure.json = json.dump(2) + "\n";
  figure.charts = {chart_of(rows)};
  return figure;
}

}  // namespace neuronmm::apps
