#include "paper/paper_pivoted.h"

#include <fmt/format.h>

#include "trainium/kernels/registry.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::apps {
namespace {

using validation::PublishedProgram;
using validation::Quantity;
using validation::Row;

constexpr int64_t kRowsOfTraffic = 32768;  // The M of the published 4.78x.

const Row* row_of(const std::vector<Row>& rows, const PublishedProgram& program,
                  Quantity quantity) {
  for (const Row& row : rows) {
    if (row.published->program.id == program.id && row.published->quantity == quantity) return &row;
  }
  return nullptr;
}

// The time or traffic of a baseline over that of NeuronMM's kernel (published and simulated) and of
// ours.
struct Gains {
  double published = 0, simulated = 0, pivoted = 0;
};

// Returns the average of the latency ratios over all M.
Gains speedups(const std::vector<Row>& rows, const PivotedRuns& pivoted,
               PublishedProgram (*baseline)(int64_t M)) {
  Gains sum;
  for (const auto& [M, run] : pivoted) {
    const Row* baseline_row = row_of(rows, baseline(M), Quantity::kMilliseconds);
    const Row* fused = row_of(rows, validation::neuronmm(M), Quantity::kMilliseconds);
    sum.published += baseline_row->published->value / fused->published->value;
    sum.simulated += baseline_row->simulated / fused->simulated;
    sum.pivoted += baseline_row->simulated / run.milliseconds;
  }
  const auto count = static_cast<double>(pivoted.size());
  return {sum.published / count, sum.simulated / count, sum.pivoted / count};
}

Gains traffic(const std::vector<Row>& rows, const PivotedRuns& pivoted) {
  const Row* dense = row_of(rows, validation::nki_xw(kRowsOfTraffic), Quantity::kHbmGib);
  const Row* fused = row_of(rows, validation::neuronmm(kRowsOfTraffic), Quantity::kHbmGib);
  return {dense->published->value / fused->published->value, dense->simulated / fused->simulated,
          dense->simulated / pivoted.at(kRowsOfTraffic).gib};
}

std::string line(const char* what, const char* stated, const Gains& gains) {
  return fmt::format("{:<36}{:>9}{:>12.2f}x{:>12.2f}x{:>12.2f}x\n", what, stated, gains.published,
                     gains.simulated, gains.pivoted);
}

}  // namespace

Result<PivotedRun> simulate_pivoted(int64_t M) {
  NMM_ASSIGN(const simulator::DeviceSpec device, simulator::find_device("trn1"));
  NMM_ASSIGN(const kernels::Kernel* kernel, kernels::find_kernel("xuv_pivoted"));
  // The tuner's result at M = 4096, except that BM is the paper's.
  NMM_ASSIGN(const kernels::Tiling tiling,
             kernels::tiling_of(
                 *kernel, {{"BM", 8}, {"BK", 8}, {"Bu", 8}, {"Br", 16}, {"BN", 1}, {"copies", 3}}));
  const kernels::KernelShape shape{.M = M, .K = 8192, .r = 4096, .N = 16384};
  NMM_ASSIGN(const tile::Program program,
             kernels::make_program(*kernel, shape, tiling, {.accumulate = DType::kBF16}));
  NMM_ASSIGN(const simulator::Timing timing, simulator::simulate(program, device));
  const auto bytes = static_cast<double>(timing.summary.hbm_bytes());
  return PivotedRun{.milliseconds = timing.summary.milliseconds(), .gib = bytes / (1 << 30)};
}

std::string averages_text(const std::vector<Row>& rows, const PivotedRuns& pivoted) {
  std::string text =
      fmt::format("\n{:<36}{:>9}{:>13}{:>13}{:>13}\n{:<36}{:>9}{:>13}{:>13}{:>13}\n", "", "stated",
                  "its charts", "simulated", "simulated", "K 8192, r 4096, N 16384", "NeuronMM",
                  "NeuronMM", "NeuronMM", "pivoted");
  text += line("speed-up over NKI XW, average of M", "2.09x",
               speedups(rows, pivoted, validation::nki_xw));
  text += line("speed-up over NKI XUV, average of M", "1.35x",
               speedups(rows, pivoted, validation::nki_xuv));
  text += line("HBM traffic below NKI XW, M 32768", "4.78x", traffic(rows, pivoted));
  return text +
         "\npivoted: our xuv_pivoted, the same W of the same rank with r(K + N - r) parameters; "
         "nothing\nis published of it. A simulated gain is over the simulated baseline. Where the "
         "stated\naverages are from is not said; \"its charts\" are the six M above.\n";
}

}  // namespace neuronmm::apps
