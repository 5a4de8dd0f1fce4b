#include "model/export_padded.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "base/progress.h"
#include "exports/padded_folder.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

nlohmann::ordered_json padded_json(const exports::PaddedSummary& summary,
                                   const PaddedExport& flags) {
  return {{"model", flags.model.string()},
          {"output", flags.out.string()},
          {"class", summary.class_name},
          {"dtype", summary.dtype},
          {"intermediate_size", summary.intermediate_size},
          {"expert_neurons", summary.expert_neurons},
          {"zeros", summary.zeros},
          {"parameters_before", summary.parameters_before},
          {"parameters", summary.parameters_after},
          {"bytes_before", summary.bytes_before},
          {"bytes", summary.bytes_after},
          {"notes", summary.notes}};
}

void print_padded(const ReportWriter& report, const exports::PaddedSummary& summary,
                  const PaddedExport& flags) {
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  report.print("{} in {}: {} parameters, {:.1f} MB -> {:.1f} MB\n", summary.class_name,
               summary.dtype, summary.parameters_after, megabytes(summary.bytes_before),
               megabytes(summary.bytes_after));
  const bool experts = summary.expert_neurons > 0;
  if (summary.zeros > 0)
    report.print(
        "all {} have {} neurons; zeros are {:.1f} % of the parameters\n",
        experts ? "experts" : "layers",
        experts ? summary.expert_neurons : summary.intermediate_size,
        100.0 * static_cast<double>(summary.zeros) / static_cast<double>(summary.parameters_after));
  for (const std::string& note : summary.notes) report.print("{}\n", note);
  report.print("written to {}\n", flags.out.string());
}

}  // namespace

Result<int> run_export_padded(const PaddedExport& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  if (flags.threads > 0) set_num_threads(flags.threads);
  Progress progress(stderr);
  NMM_ASSIGN(const auto summary,
             exports::write_padded({.model = flags.model, .out = flags.out, .force = flags.force},
                                   progress, [&](const exports::PaddedSummary& written) {
                                     return report.write_json(padded_json(written, flags));
                                   }));
  print_padded(report, summary, flags);
  return 0;
}

}  // namespace neuronmm::apps
