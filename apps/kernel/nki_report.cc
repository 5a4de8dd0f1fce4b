#include "kernel/nki_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "kernel/quantities.h"
#include "trainium/trace/error_band.h"

namespace neuronmm::apps {
namespace {

using simulator::DeviceSpec;
using simulator::EngineSummary;
using simulator::Summary;
using trace::LineReport;
using NkiJson = nlohmann::ordered_json;

constexpr double kWorthNaming = 0.05;  // Assumed: the least share of a line's waits.

const Summary& summary_of(const KernelRun& run) { return run.timing.timing.summary; }

double share_of(double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; }

std::string kernel_lines(const KernelRun& run, const DeviceSpec& device) {
  const trace::Header& header = run.header;
  std::string text = fmt::format("{}\n\n", run.name);
  text += fmt::format("  {:<14}{} instructions on {} tensors, {}\n", "traced", header.instructions,
                      header.instances,
                      header.legacy() ? "the legacy dialect (neuronxcc.nki)" : "dialect nki");
  return text + fmt::format("  {:<14}{} ({})\n", "device", device.name, device.core);
}

std::string_view order_name(bool as_written) {
  return as_written ? "as written" : "rescheduled as the compiler might";
}

std::string time_lines(const KernelRun& run, const DeviceSpec& device) {
  const Summary& m = summary_of(run);
  std::string text = fmt::format("\n  {:<14}{:>12}   {}\n", "latency", time_of(run.latency_ms()),
                                 band_text(run, device));
  if (run.other_order_ms) {
    text += fmt::format("  {:<14}{:>12}   {}, the slower order; the latency is {}\n", "other order",
                        time_of(*run.other_order_ms), order_name(!run.is_as_written),
                        order_name(run.is_as_written));
  }
  const trace::ErrorBand band = trace::error_band(run.timing, run.header.dialect, device.name);
  if (band.unmeasured_percent >= 1) {
    text += fmt::format(
        "  {:<14}{:>10.0f} %   of this time is in instructions that no public measurement covers: "
        "{}\n",
        "unmeasured", band.unmeasured_percent, band.unmeasured);
  }
  for (const NamedBound& bound : bounds_of(run)) {
    text += fmt::format("  {:<14}{:>12}   {}\n", bound.name, time_of(bound.ms), bound.what);
  }
  if (run.timing.fixed_ns > 0) {
    text += fmt::format("  {:<14}{:>12}   of every {}, in the latency\n", "fixed",
                        time_of(run.timing.fixed_ns / kNsPerMs),
                        run.header.cores > 1 ? "launch on several cores" : "kernel");
  }
  text += fmt::format("  {:<14}{:>10.1f} %   of {:.1f} TFLOP/s\n", "MFU", m.mfu_estimated_percent,
                      device.peak_flops_per_ns() / 1e3);
  return text + fmt::format("  {:<14}{:>10.1f} %   of {:.0f} GB/s\n", "MBU",
                            m.mbu_estimated_percent, device.hbm_stack_bandwidth.value);
}

std::string traffic_lines(const KernelRun& run) {
  const Summary& m = summary_of(run);
  const auto row = [](std::string_view name, int64_t bytes, const std::string& note = "") {
    return fmt::format("  {:<14}{:>12} {:>16}{}{}\n", name, bytes_of(static_cast<double>(bytes)),
                       bytes, note.empty() ? "" : "   ", note);
  };
  const double times =
      run.timing.compulsory_bytes > 0
          ? static_cast<double>(m.hbm_bytes()) / static_cast<double>(run.timing.compulsory_bytes)
          : NAN;
  std::string text = "\nHBM traffic                         bytes\n";
  text += row("read", m.hbm_read_bytes) + row("written", m.hbm_write_bytes);
  if (m.spill_save_bytes + m.spill_reload_bytes > 0) {
    text += row("  spill saves", m.spill_save_bytes, "of the bytes written") +
            row("  spill loads", m.spill_reload_bytes, "of the bytes read");
  }
  return text + row("total", m.hbm_bytes()) +
         row("compulsory", run.timing.compulsory_bytes,
             std::isnan(times)
                 ? "inputs and outputs once"
                 : fmt::format("inputs and outputs once; {:.2f} times that moves", times));
}

std::string engine_lines(const KernelRun& run) {
  const Summary& m = summary_of(run);
  std::string text = fmt::format("\n{:<16}{:>10}{:>16}\n", "engine", "busy", "instructions");
  const auto row = [&text](std::string_view name, double percent, int64_t count,
                           const std::string& note = "") {
    text += fmt::format("  {:<14}{:>8.1f} %{:>16}{}\n", name, percent, count, note);
  };
  row("Tensor", m.tensor.active_time_percent, m.tensor.instruction_count,
      fmt::format("   {} matmul, {:.4g} GFLOP", m.matmul_instruction_count,
                  m.hardware_flops / 1e9));
  row("Vector", m.vector.active_time_percent, m.vector.instruction_count);
  row("Scalar", m.scalar.active_time_percent, m.scalar.instruction_count);
  row("GpSimd", m.gpsimd.active_time_percent, m.gpsimd.instruction_count);
  row("DMA", m.dma_active_time_percent, m.dma_transfer_count,
      fmt::format("   {} on average", bytes_of(m.dma_transfer_average_bytes)));
  return text;
}

std::string memory_lines(const KernelRun& run) {
  const auto row = [](std::string_view name, const trace::MemoryPeak& peak) {
    return fmt::format("  {:<6}{:>12} of {:>10}   {}\n", name,
                       bytes_of(static_cast<double>(peak.bytes)),
                       bytes_of(static_cast<double>(peak.capacity)), peak.tensors);
  };
  return "\nmost memory at a time, per partition\n" + row("SBUF", run.timing.sbuf) +
         row("PSUM", run.timing.psum);
}

// Writes the source lines that the kernel waits for, one after the other from its begin to its end.
// Their times add up to the latency without its fixed part.
std::string source_lines(const KernelRun& run, size_t most) {
  size_t width = 4;
  for (size_t i = 0; i < std::min(most, run.timing.lines.size()); ++i) {
    width = std::max(width, run.header.location(run.timing.lines[i].source).size());
  }
  std::string text = fmt::format(
      "\nsource lines by the time that the kernel stands still for them\n"
      "  {:>10}{:>8}{:>14}{:>12}{:>12}   {:<{}}   {}\n",
      "stall", "share", "instructions", "busy", "DMA", "line", width, "waits for");
  size_t listed = 0;
  for (const LineReport& line : run.timing.lines) {
    if (listed++ == most) break;
    text += fmt::format("  {:>10}{:>6.1f} %{:>14}{:>12}{:>12}   {:<{}}   {}\n",
                        time_of(line.stalled() / kNsPerMs),
                        share_of(line.stalled() / kNsPerMs, run.latency_ms()), line.instructions,
                        time_of(line.busy_ns / kNsPerMs),
                        line.bytes > 0 ? bytes_of(static_cast<double>(line.bytes)) : "",
                        run.header.location(line.source), width, causes_text(line));
  }
  if (run.timing.lines.size() > most) {
    text += fmt::format("  and {} lines more (--lines)\n", run.timing.lines.size() - most);
  }
  return text;
}

std::string result_lines(const KernelRun& run) {
  std::string text;
  for (size_t i = 0; i < run.results.size(); ++i) {
    const TracedResult& result = run.results[i];
    if (!result.error) continue;
    text += fmt::format("  result {}: {}[{}]: relative error {:.3g}, {:.3g} allowed{}\n", i,
                        result.dtype, fmt::join(result.shape, ","), *result.error,
                        *result.tolerance, result.passed() ? "" : ": WRONG");
    if (!result.wrong) continue;
    const WrongElements& wrong = *result.wrong;
    text += fmt::format(
        "    first wrong at [{}]: found {:.6g}, expected {:.6g}\n"
        "    {:.3g} % of the elements are wrong; the largest error is {:.3g} ulps of {}\n",
        fmt::join(wrong.index, ","), wrong.found, wrong.expected, 100 * wrong.share, wrong.ulps,
        result.dtype);
  }
  return text.empty() ? "" : "\nvalues beside the reference\n" + text;
}

std::string note_lines(const KernelRun& run) {
  std::string text;
  for (const auto& notes : {run.timing.timing.remedies, run.timing.notes}) {
    for (const std::string& note : notes) text += fmt::format("  {}\n", note);
  }
  return text.empty() ? "" : "\nnotes\n" + text;
}

std::string what_if_lines(const NkiReport& report) {
  std::string text;
  for (const WhatIfResult& result : report.what_ifs) {
    text += result.latency_ms ? fmt::format("  {:<28}{:>12}   {:.2f}x as fast\n", result.text,
                                            time_of(*result.latency_ms),
                                            report.run.latency_ms() / *result.latency_ms)
                              : fmt::format("  {:<28}{}\n", result.text, result.refusal);
  }
  return text.empty() ? "" : "\nwhat if\n" + text;
}

std::string comparison_lines(const KernelRun& run, const KernelRun& other) {
  std::string text = fmt::format("\n{:<24}{:>14}{:>14}{:>10}\n", "beside each other", "this",
                                 "the other", "ratio");
  const auto row = [&text](std::string_view name, double a, double b, const auto& print) {
    text += fmt::format("  {:<22}{:>14}{:>14}{:>9}x\n", name, print(a), print(b),
                        b > 0 ? fmt::format("{:.2f}", a / b) : "-");
  };
  const Summary &a = summary_of(run), &b = summary_of(other);
  const auto number = [](double n) { return fmt::format("{:.0f}", n); };
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  row("latency", run.latency_ms(), other.latency_ms(), time_of);
  row("HBM traffic", count(a.hbm_bytes()), count(b.hbm_bytes()), bytes_of);
  row("instructions", count(run.header.instructions), count(other.header.instructions), number);
  const auto engine = [&](std::string_view name, const EngineSummary& x, const EngineSummary& y) {
    row(name, x.instruction_time * 1e3, y.instruction_time * 1e3, time_of);
  };
  engine("Tensor work", a.tensor, b.tensor);
  engine("Vector work", a.vector, b.vector);
  engine("Scalar work", a.scalar, b.scalar);
  engine("GpSimd work", a.gpsimd, b.gpsimd);
  row("SBUF", count(run.timing.sbuf.bytes), count(other.timing.sbuf.bytes), bytes_of);
  row("PSUM", count(run.timing.psum.bytes), count(other.timing.psum.bytes), bytes_of);
  return text + fmt::format("  the other: {}\n", other.name);
}

NkiJson lines_json(const KernelRun& run) {
  NkiJson lines = NkiJson::array();
  for (const LineReport& line : run.timing.lines) {
    const trace::SourceLine& source = run.header.sources[line.source];
    NkiJson causes = NkiJson::object(), waits = NkiJson::object();
    for (size_t cause = 0; cause < trace::kCauses; ++cause) {
      const std::string name(trace::cause_name(static_cast<trace::Cause>(cause)));
      causes[name] = line.stalled_ns[cause];
      waits[name] = line.waited_ns[cause];
    }
    lines.push_back({{"file", run.header.files[source.file]},
                     {"line", source.line},
                     {"function", source.function},
                     {"stalled_ns", line.stalled()},
                     {"stalled_ns_by_cause", causes},
                     {"waited_ns_by_cause", waits},
                     {"busy_ns", line.busy_ns},
                     {"instructions", line.instructions},
                     {"dma_bytes", line.bytes}});
  }
  return lines;
}

NkiJson memory_json_of(const trace::MemoryPeak& peak) {
  return {{"bytes_per_partition", peak.bytes},
          {"capacity_per_partition", peak.capacity},
          {"tensors", peak.tensors}};
}

NkiJson wrong_json(const WrongElements& wrong) {
  return {{"index", wrong.index},
          {"found", wrong.found},
          {"expected", wrong.expected},
          {"share", wrong.share},
          {"ulps", wrong.ulps}};
}

NkiJson band_json(const KernelRun& run, const DeviceSpec& device) {
  const trace::ErrorBand band = trace::error_band(run.timing, run.header.dialect, device.name);
  NkiJson charged = NkiJson::object();
  for (const trace::ChargedTime& each : run.timing.charged) {
    NkiJson& ns = charged[std::string(trace::evidence_name(each.evidence))];
    ns = ns.is_null() ? each.ns : ns.get<double>() + each.ns;
  }
  return {{"percent", band.percent},
          {"fitted_rows", band.rows},
          {"unmeasured_percent", band.unmeasured_percent},
          {"unmeasured", band.unmeasured},
          {"charged_ns", charged}};
}

NkiJson run_json(const KernelRun& run) {
  NkiJson summary = NkiJson::object(), bounds = NkiJson::object(), results = NkiJson::array();
  for (const auto& [name, value] : summary_of(run).fields()) summary[name] = value;
  for (const NamedBound& bound : bounds_of(run)) bounds[std::string(bound.name)] = bound.ms;
  for (const TracedResult& result : run.results) {
    NkiJson row = {{"dtype", result.dtype}, {"shape", result.shape}};
    if (result.error) row.update({{"error", *result.error}, {"tolerance", *result.tolerance}});
    if (result.wrong) row["wrong"] = wrong_json(*result.wrong);
    results.push_back(row);
  }
  return {{"kernel", run.name},
          {"dialect", run.header.dialect},
          {"instructions", run.header.instructions},
          {"latency_ms", run.latency_ms()},
          {"as_written", run.is_as_written},
          {"other_order_ms", run.other_order_ms ? NkiJson(*run.other_order_ms) : NkiJson()},
          {"class", trace::class_name(trace::class_of(run.timing))},
          {"bounds_ms", bounds},
          {"compulsory_bytes", run.timing.compulsory_bytes},
          {"summary", summary},
          {"memory",
           {{"sbuf", memory_json_of(run.timing.sbuf)}, {"psum", memory_json_of(run.timing.psum)}}},
          {"lines", lines_json(run)},
          {"results", results},
          {"remedies", run.timing.timing.remedies},
          {"notes", run.timing.notes}};
}

}  // namespace

std::vector<NamedBound> bounds_of(const KernelRun& run) {
  const trace::TraceBound& bound = run.timing.bound;
  std::vector<NamedBound> bounds = {
      {"Tensor bound", "its instructions back to back", bound.tensor_ns / kNsPerMs},
      {"Vector bound", "its instructions back to back", bound.vector_ns / kNsPerMs},
      {"Scalar bound", "its instructions back to back", bound.scalar_ns / kNsPerMs},
      {"GpSimd bound", "its instructions back to back", bound.gpsimd_ns / kNsPerMs},
      {"DMA bound", "all transfers, shared among the engines", bound.dma_ns / kNsPerMs},
      {"compulsory", "inputs and outputs once, at the full rate", bound.compulsory_ns / kNsPerMs}};
  std::ranges::stable_sort(bounds, std::greater(), &NamedBound::ms);
  return bounds;
}

std::string band_text(const KernelRun& run, const DeviceSpec& device) {
  const trace::ErrorBand band = trace::error_band(run.timing, run.header.dialect, device.name);
  return fmt::format("± {:.0f} %, fitted to {} published times{}{}", band.percent, band.rows,
                     band.wider.empty() ? "" : "; wider because ", band.wider);
}

std::string causes_text(const LineReport& line) {
  std::vector<std::pair<double, size_t>> causes;
  for (size_t i = 0; i < trace::kCauses; ++i) {
    const double share = share_of(line.stalled_ns[i], line.stalled());
    if (share >= 100 * kWorthNaming) causes.emplace_back(share, i);
  }
  std::ranges::sort(causes, std::greater());
  std::string text;
  for (const auto& [share, cause] : causes) {
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ",
                        trace::cause_name(static_cast<trace::Cause>(cause)), share);
  }
  return text;
}

std::string to_text(const NkiReport& report, const DeviceSpec& device, size_t lines) {
  const KernelRun& run = report.run;
  std::string text = "simulated (no Trainium was used)\n\n" + kernel_lines(run, device) +
                     time_lines(run, device) + traffic_lines(run) + engine_lines(run) +
                     memory_lines(run) + source_lines(run, lines) + result_lines(run) +
                     what_if_lines(report) + advice_text(report.advice, run.latency_ms());
  if (report.other) text += comparison_lines(run, *report.other);
  if (report.measured) {
    text += measured_text(*report.measured, report.measured_file,
                          compare_classes(*report.measured, run.timing.classes), run.latency_ms());
  }
  return text + note_lines(run);
}

NkiJson to_json(const NkiReport& report, const DeviceSpec& device) {
  NkiJson json = {{"note", "simulated (no Trainium was used)"},
                  {"device", device.name},
                  {"fixed_ns", report.run.timing.fixed_ns}};
  json.update(run_json(report.run));
  json["band"] = band_json(report.run, device);
  NkiJson what_ifs = NkiJson::array();
  for (const WhatIfResult& result : report.what_ifs) {
    NkiJson row = {{"what_if", result.text}};
    if (result.latency_ms) row["latency_ms"] = *result.latency_ms;
    if (!result.latency_ms) row["refused"] = result.refusal;
    what_ifs.push_back(row);
  }
  if (!what_ifs.empty()) json["what_ifs"] = what_ifs;
  json["advice"] = advice_json(report.advice);
  if (report.other) json["compared_with"] = run_json(*report.other);
  if (report.measured) {
    json["measured"] = measured_json(*report.measured, report.measured_file,
                                     compare_classes(*report.measured, report.run.timing.classes));
  }
  return json;
}

}  // namespace neuronmm::apps
