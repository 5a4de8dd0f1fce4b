// `neuronmm tune` finds the fastest tilings of a kernel on a simulated Trainium core, and says why
// the others are slower.

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "commands.h"
#include "flags.h"
#include "kernel/kernel_settings.h"
#include "kernel/tuned.h"
#include "report_writer.h"
#include "trainium/tuner/cache.h"

namespace neuronmm::apps {
namespace {

using tuner::Measurement;
using tuner::Outcome;
using Json = nlohmann::ordered_json;

struct TuneFlags {
  KernelFlags kernel;
  std::string json;
  int64_t top = 5;
  int threads = 0;
};

// Returns the share of the latency that the Tensor engine needs at least. The rest of the latency
// is waiting or DMA.
double tensor_share(const Measurement& m) { return m.bound.tensor_ns / m.latency_ns; }
double traffic_ratio(const Outcome& outcome, const Measurement& m) {
  return static_cast<double>(m.hbm_bytes) / static_cast<double>(outcome.compulsory_bytes);
}

// Writes the best tilings, and for each reason for losing the tiling that came closest.
std::string to_text(const tuner::Problem& problem, const Outcome& outcome) {
  std::string text = fmt::format(
      "simulated (no Trainium was used)\n\n{}: {} tilings, {} fit into SBUF, {} simulated{}\n\n",
      tuner::key_of(problem), outcome.tilings, outcome.fitting, outcome.simulated,
      outcome.from_cache ? "   (from the cache)" : "");
  text += fmt::format("{:>12}{:>14}{:>12}{:>12}   {}\n", "latency, ms", "Tensor bound", "HBM, MiB",
                      "compulsory", "tiling");
  for (const Measurement& m : outcome.best) {
    text += fmt::format("{:>12.4f}{:>12.1f} %{:>12.2f}{:>11.2f}x   {}\n", m.latency_ns * 1e-6,
                        100 * tensor_share(m), static_cast<double>(m.hbm_bytes) / kMiB,
                        traffic_ratio(outcome, m), tuner::tiling_text(m.tiling));
  }
  text += fmt::format(
      "\nThe best moves the fewest bytes of those that take at most {:.1f} % longer than the "
      "fastest,\n"
      "{:.4f} ms, and no longer than the kernel's default tiling.\n\nwhy the others lost:\n",
      100 * tuner::kSlack, outcome.fastest_ns * 1e-6);
  for (size_t i = 0; i < outcome.rejected.size(); ++i) {
    const tuner::RejectedTilings& rejected = outcome.rejected[i];
    if (rejected.count == 0) continue;
    text += fmt::format("  {:<12}{:>6}   closest: {}\n{:<23}{}\n",
                        tuner::rejection_name(static_cast<tuner::Rejection>(i)), rejected.count,
                        tuner::tiling_text(rejected.closest), "", rejected.why);
  }
  return text +
         "\nTensor bound: share of the latency that the Tensor engine needs at least. compulsory:\n"
         "HBM bytes over those of each operand once.\n";
}

Json tiling_json(const kernels::Tiling& tiling) {
  Json json = Json::object();
  for (const auto& [name, value] : tiling.values()) json[name] = value;
  return json;
}

std::string to_json(const tuner::Problem& problem, const Outcome& outcome) {
  Json best = Json::array(), rejected = Json::object();
  for (const Measurement& m : outcome.best) {
    best.push_back({{"tiling", tiling_json(m.tiling)},
                    {"latency_ms", m.latency_ns * 1e-6},
                    {"tensor_bound_ms", m.bound.tensor_ns * 1e-6},
                    {"dma_bound_ms", m.bound.dma_ns * 1e-6},
                    {"elementwise_bound_ms", m.bound.elementwise_ns * 1e-6},
                    {"hbm_bytes", m.hbm_bytes},
                    {"compulsory_ratio", traffic_ratio(outcome, m)}});
  }
  for (size_t i = 0; i < outcome.rejected.size(); ++i) {
    const tuner::RejectedTilings& tilings = outcome.rejected[i];
    rejected[std::string(tuner::rejection_name(static_cast<tuner::Rejection>(i)))] = {
        {"count", tilings.count}, {"closest", tiling_json(tilings.closest)}, {"why", tilings.why}};
  }
  const Json json = {{"note", "simulated (no Trainium was used)"},
                     {"problem", tuner::key_of(problem)},
                     {"cores", problem.cores},
                     {"tilings", outcome.tilings},
                     {"fitting", outcome.fitting},
                     {"simulated", outcome.simulated},
                     {"compulsory_bytes", outcome.compulsory_bytes},
                     {"fastest_ms", outcome.fastest_ns * 1e-6},
                     {"best", best},
                     {"losers", rejected}};
  return json.dump(2) + "\n";
}

// The result is stored in the cache even if writing the JSON fails.
Result<int> run_tune(const TuneFlags& flags) {
  NMM_ASSIGN(const tuner::Problem problem, read_problem(flags.kernel));
  if (flags.threads > 0) set_num_threads(flags.threads);
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  Progress progress(stderr);
  NMM_ASSIGN(const Outcome outcome,
             tune_with_cache(problem, flags.top, flags.kernel.cache, progress));
  NMM_TRY(report.write_json_text(to_json(problem, outcome)));
  report.print("{}", to_text(problem, outcome));
  return 0;
}

}  // namespace

void add_tune(Program& program) {
  auto flags = std::make_shared<TuneFlags>();
  CLI::App* command =
      program.add(CommandGroup::kKernels, "tune",
                  "Find the fastest tiling of a kernel on a simulated Trainium core",
                  {"neuronmm tune xuv --shape 512,512,256,512",
                   "neuronmm tune xuv --shape 512,512,256,512 --device trn1 --top 3"});
  add_kernel_flags(command, flags->kernel);
  command->get_option("--tiling")
      ->description("Fix NAME=TILES,... and search only the other parameters");
  command->add_option("--top", flags->top, "Show the N fastest tilings")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(kOutput);
  add_json_option(command, flags->json, "the result");
  add_threads_option(command, flags->threads);
  program.set_run(command, [flags] { return run_tune(*flags); });
}

}  // namespace neuronmm::apps
