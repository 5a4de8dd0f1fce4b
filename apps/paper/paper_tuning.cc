// This file implements `neuronmm paper tuning`. The figure compares the tuner's best tiling of the
// fused kernel with the paper's, at the headline shape and for the MLP weights of six models.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compress/sizes/rank.h"
#include "kernel/kernel_settings.h"
#include "kernel/tuned.h"
#include "paper/paper_figures.h"
#include "paper/paper_models.h"
#include "report_writer.h"
#include "trainium/simulator/timing.h"
#include "trainium/validation/published_programs.h"

namespace neuronmm::apps {
namespace {

using kernels::KernelShape;
using Json = nlohmann::ordered_json;

// The compression ratio of the paper's larger speed-ups.
constexpr double kTunedRatio = 0.2;

struct TuningCase {
  std::string name;  // The name, such as "headline" or "Qwen3-4B down".
  KernelShape shape;
  DType sums;
};

// A shape with the results of both tilings.
struct TunedRow {
  TuningCase test_case;
  double paper_ms = 0;
  int64_t paper_bytes = 0;
  bool paper_spills = false;
  tuner::Measurement tuned;
  int64_t compulsory_bytes = 0;

  double tuned_ms() const { return tuned.latency_ns * 1e-6; }
  double time_ratio() const { return tuned_ms() / paper_ms; }
  double bytes_ratio() const {
    return static_cast<double>(tuned.hbm_bytes) / static_cast<double>(paper_bytes);
  }
  double tensor_share() const { return tuned.bound.tensor_ns / tuned.latency_ns; }
  double dma_share() const { return tuned.bound.dma_ns / tuned.latency_ns; }
  double compulsory_ratio() const {
    return static_cast<double>(tuned.hbm_bytes) / static_cast<double>(compulsory_bytes);
  }
};

// Returns the headline shape at the paper's numbers of rows. Both weights of every model's MLP
// follow, at numbers of rows from decoding (1) to prefilling (2048).
Result<std::vector<TuningCase>> cases_of(const Choice& choice, DType sums) {
  const auto rows_or = [&](const std::vector<int64_t>& all) {
    return choice.rows.empty() ? all : choice.rows;
  };
  std::vector<TuningCase> cases;
  if (choice.models.empty()) {
    for (const int64_t m : rows_or({1024, 2048, 4096, 8192, 16384, 32768})) {
      cases.push_back({"headline", validation::neuronmm(m).shape, sums});
    }
  }
  for (const std::string& model : models_or_all(choice.models)) {
    NMM_ASSIGN(const io::ModelConfig config, paper_model(model));
    const int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
    const int64_t rank = compress::aligned_rank(hidden, intermediate, {.ratio = kTunedRatio});
    for (const bool down : {false, true}) {
      for (const int64_t m : rows_or({1, 128, 512, 2048})) {
        cases.push_back({fmt::format("{} {}", model, down ? "down" : "up"),
                         {.M = m,
                          .K = down ? intermediate : hidden,
                          .r = rank,
                          .N = down ? hidden : intermediate},
                         sums});
      }
    }
  }
  return cases;
}

// Simulates the paper's tiling, which is the kernel's default, and tunes another one. If the
// paper's tiling does not fit, the simulation includes what the compiler would do. Both tilings
// load as the paper's kernel does, so that only tilings are compared.
Result<TunedRow> run(const TuningCase& wanted) {
  NMM_ASSIGN(const kernels::Kernel* kernel, kernels::find_kernel("xuv"));
  NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device("trn1"));
  const tuner::Problem problem{.kernel = kernel,
                               .shape = wanted.shape,
                               .options = {.accumulate = wanted.sums},
                               .device = device,
                               .chosen = {{"contiguous", 0}}};
  TunedRow row{.test_case = wanted, .tuned = {}};
  // The default tiling is the paper's.
  NMM_ASSIGN(const kernels::Tiling paper, kernels::tiling_of(*kernel, {}));
  NMM_ASSIGN(const tile::Program program,
             kernels::make_program(*kernel, wanted.shape, paper, problem.options));
  NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(program, device));
  row.paper_ms = timing.summary.milliseconds();
  row.paper_bytes = timing.summary.hbm_bytes();
  row.paper_spills = !timing.remedies.empty();
  Progress silent;
  // The result comes from the cache if the problem has been tuned before. Otherwise the whole table
  // takes minutes.
  NMM_ASSIGN(const tuner::Outcome outcome, tune_with_cache(problem, 1, "", silent));
  row.tuned = outcome.best.front();
  row.compulsory_bytes = outcome.compulsory_bytes;
  return row;
}

std::string head_of_case(const char* name) {
  return fmt::format("{:<18}{:^21}{:^28}{:^27}{:^27}\n{:<18}{:>6}{:>7}{:>7} ", "", "",
                     "latency, ms", "HBM, MiB", "tuned: share of latency", name, "M", "rank", "") +
         fmt::format("{0:>10}{1:>10}{2:>8}{0:>10}{1:>10}{2:>7}{3:>9}{4:>7}{5:>11}   {6}\n",
                     "paper's", "tuned", "ratio", "Tensor", "DMA", "compulsory", "tiling");
}

// Returns the values of one row under head_of_case(). docs/measurements/tuning.md explains them.
std::string line(const TunedRow& row) {
  const KernelShape& s = row.test_case.shape;
  return fmt::format(
      "{:<18}{:>6}{:>7}{:>7} {:>10.4f}{:>10.4f}{:>8.3f}{:>10.2f}{:>10.2f}{:>7.2f}{:>7.1f} "
      "%{:>5.1f} %{:>10.2f}x   {}\n",
      row.test_case.name, s.M, s.r, row.paper_spills ? "spills" : "", row.paper_ms, row.tuned_ms(),
      row.time_ratio(), static_cast<double>(row.paper_bytes) / kMiB,
      static_cast<double>(row.tuned.hbm_bytes) / kMiB, row.bytes_ratio(), 100 * row.tensor_share(),
      100 * row.dma_share(), row.compulsory_ratio(), tiling_text(row.tuned.tiling));
}

Json row_json(const TunedRow& row) {
  const KernelShape& s = row.test_case.shape;
  Json tiling = Json::object();
  for (const auto& [name, value] : row.tuned.tiling.values()) tiling[name] = value;
  return {{"name", row.test_case.name},
          {"shape", {s.M, s.K, s.r, s.N}},
          {"sums", row.test_case.sums == DType::kBF16 ? "bf16" : "fp32"},
          {"paper",
           {{"latency_ms", row.paper_ms},
            {"hbm_bytes", row.paper_bytes},
            {"spills", row.paper_spills}}},
          {"tuned",
           {{"latency_ms", row.tuned_ms()},
            {"hbm_bytes", row.tuned.hbm_bytes},
            {"tiling", tiling},
            {"tensor_bound_ms", row.tuned.bound.tensor_ns * 1e-6},
            {"dma_bound_ms", row.tuned.bound.dma_ns * 1e-6}}},
          {"compulsory_bytes", row.compulsory_bytes}};
}

// Returns the row that gains least, in words: "closest to the paper's: 0.998 of its time (headline,
// M 1024)".
std::string verdict(const std::vector<TunedRow>& rows) {
  const auto worst = std::max_element(
      rows.begin(), rows.end(),
      [](const TunedRow& a, const TunedRow& b) { return a.time_ratio() < b.time_ratio(); });
  return fmt::format("closest to the paper's: {:.4f} of its time ({}, M {})\n", worst->time_ratio(),
                     worst->test_case.name, worst->test_case.shape.M);
}

BarChart headline_chart(const std::vector<TunedRow>& rows) {
  BarChart chart{.title = "HBM traffic at K 8192, r 4096, N 16384, bf16, trn1, simulated",
                 .unit = "GiB",
                 .groups_name = "M (rows of X)",
                 .logarithmic = true};
  chart.series = {{"the paper's tiling", "#4878a8", false, {}}, {"tuned", "#4f9a4f", false, {}}};
  for (const TunedRow& row : rows) {
    // With fp32 sums the paper's tiling spills, which would hide the comparison.
    if (row.test_case.name != "headline" || row.test_case.sums != DType::kBF16) continue;
    chart.groups.push_back(fmt::format("{}", row.test_case.shape.M));
    chart.series[0].values.push_back(static_cast<double>(row.paper_bytes) / (1 << 30));
    chart.series[1].values.push_back(static_cast<double>(row.tuned.hbm_bytes) / (1 << 30));
  }
  return chart;
}

constexpr const char* kTuningNote =
    "\nratio: tuned over the paper's tiling, BM=8,BK=4,Br=8,BN=2. Tensor, DMA: share of the tuned "
    "latency\nthat this resource needs at least; compulsory: HBM bytes over those of each operand "
    "once.\n"
    "headline: K 8192, N 16384; models: their gate and up (K hidden, N intermediate) and down\n"
    "weights at ratio 0.2. spills: the paper's tiling does not fit SBUF with fp32 sums at r 4096\n"
    "(the published kernels keep bf16 sums), and the compiler's remedies are simulated, too.\n";

}  // namespace

Result<Figure> tuning_figure(const Choice& choice) {
  Figure figure;
  figure.text = "simulated (no Trainium was used): xuv, bf16, one core of trn1\n";
  Json json = Json::array();
  std::vector<TunedRow> all;
  for (const DType sums : {DType::kBF16, DType::kF32}) {
    NMM_ASSIGN(const std::vector<TuningCase> cases, cases_of(choice, sums));
    const char* name = sums == DType::kBF16 ? "bf16" : "fp32";
    Progress progress(stderr);
    progress.start(fmt::format("simulating {} sums", name), std::ssize(cases));
    figure.text += fmt::format("\n{} sums\n{}", name, head_of_case(""));
    std::vector<TunedRow> rows;
    for (const TuningCase& wanted : cases) {
      NMM_ASSIGN(TunedRow row, run(wanted));
      figure.text += line(row);
      json.push_back(row_json(row));
      rows.push_back(std::move(row));
      progress.update(std::ssize(rows), fmt::format("{}, M {}", wanted.name, wanted.shape.M));
    }
    figure.text += verdict(rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  figure.text += kTuningNote;
  figure.json = json.dump(2) + "\n";
  if (choice.models.empty()) figure.charts = {headline_chart(all)};
  return figure;
}

}  // namespace neuronmm::apps
