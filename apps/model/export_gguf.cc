#include "model/export_gguf.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "base/progress.h"
#include "commands.h"
#include "compress/statistics/saved_statistics.h"
#include "flags.h"
#include "gguf_out/export_gguf.h"
#include "model/calibrated_export.h"
#include "report_writer.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

using Json = nlohmann::ordered_json;

// Returns "Q4_K 96, Q6_K 49, F32 145".
std::string types_text(const gguf_out::GgufSummary& summary) {
  std::vector<std::string> types;
  for (const auto& [name, count] : summary.types)
    types.push_back(fmt::format("{} {}", name, count));
  return fmt::format("{}", fmt::join(types, ", "));
}

Json summary_json(const gguf_out::GgufSummary& summary, const GgufExport& flags) {
  return {{"model", flags.model.string()},
          {"output", flags.out.string()},
          {"architecture", summary.architecture},
          {"type", summary.type},
          {"parameters", summary.parameters},
          {"bytes", summary.bytes},
          {"tensors", summary.types},
          {"notes", summary.notes}};
}

void print_summary(const ReportWriter& report, const gguf_out::GgufSummary& summary,
                   const GgufExport& flags) {
  report.print("{} as {}: {} parameters, {:.1f} MB (tensors: {})\n", summary.architecture,
               summary.type, summary.parameters, static_cast<double>(summary.bytes) / 1e6,
               types_text(summary));
  for (const std::string& note : summary.notes) report.print("{}\n", note);
  report.print("written to {}\n", flags.out.string());
}

bool is_calibrated(const GgufFlags& flags) {
  return !flags.calibration.empty() || !flags.statistics.empty();
}

Result<gguf_out::GgufSummary> export_with_text(
    const gguf_out::GgufRequest& request, const GgufExport& flags, Progress& progress,
    const io::BeforeOutput<gguf_out::GgufSummary>& before_output) {
  ExportCalibration calibration = {.statistics = flags.gguf.statistics};
  if (!flags.gguf.calibration.empty()) {
    const int64_t otherwise = compress::SavedStatistics::tokens_asked(flags.gguf.statistics)
                                  .value_or(compress::kShapeCalibrationTokens);
    calibration.text = {.texts = {},
                        .max_tokens = flags.gguf.calibration_tokens.value_or(otherwise)};
    for (const std::string& file : flags.gguf.calibration)
      calibration.text->texts.push_back(compress::NamedText::of_file(file, {}));
  }
  NMM_ASSIGN(const auto backend, make_backend({.threads = flags.threads}));
  return export_by_text(request, std::move(calibration), *backend, progress, before_output);
}

}  // namespace

void add_gguf_flags(CLI::App* command, GgufFlags& flags) {
  command->add_option("--type", flags.type, "With gguf: round matrices to this type of llama.cpp")
      ->check(CLI::IsMember(gguf_out::type_mix_names()))
      ->type_name("TYPE")
      ->default_str("by the model")
      ->group(kQuality);
  add_calibration_option(command, flags.calibration);
  add_calibration_tokens_option(command, flags.calibration_tokens, "32768");
  add_statistics_option(command, flags.statistics);
  command->add_flag("--strict", flags.strict, "With gguf: fail if a row does not fit the type")
      ->group(kQuality);
  command->add_flag("--force", flags.force, "With gguf and padded: replace what exists")
      ->group(kOutput);
}

Result<int> run_export_gguf(const GgufExport& flags) {
  NMM_ASSIGN(ReportWriter report, ReportWriter::open(flags.json));
  if (flags.threads > 0) set_num_threads(flags.threads);
  const gguf_out::GgufRequest request = {.model = flags.model,
                                         .out = flags.out,
                                         .type = flags.gguf.type,
                                         .strict = flags.gguf.strict,
                                         .force = flags.gguf.force,
                                         .producer = fmt::format("neuronmm {}", kVersion)};
  Progress progress(stderr);
  const auto write_report = [&](const gguf_out::GgufSummary& written) {
    return report.write_json(summary_json(written, flags));
  };
  NMM_ASSIGN(const auto summary, is_calibrated(flags.gguf)
                                     ? export_with_text(request, flags, progress, write_report)
                                     : gguf_out::export_gguf(request, {}, progress, write_report));
  print_summary(report, summary, flags);
  return 0;
}

}  // namespace neuronmm::apps
