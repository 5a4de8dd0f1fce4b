#include "kernel/nki_report.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using simulator::Summary;
using trace::LineReport;
using trace::TraceBound;
using trace::TraceTiming;
using Json = nlohmann::ordered_json;

constexpr size_t kLinesShown = 15;

double nki_mebibytes(int64_t bytes) { return static_cast<double>(bytes) / kMiB; }
double kernel_ns(const TraceTiming& timing) { return timing.timing.summary.total_time * 1e9; }

struct BoundRow {
  const char* name;
  double ns;
  const char* what;
};
std::array<BoundRow, 6> bound_rows(const TraceBound& b) {
  return {{{"Tensor", b.tensor_ns, "its instructions back to back"},
           {"Vector", b.vector_ns, ""},
           {"Scalar", b.scalar_ns, ""},
           {"GpSimd", b.gpsimd_ns, ""},
           {"DMA", b.dma_ns, "all transfers, spread over the engines"},
           {"compulsory", b.compulsory_ns, "inputs and outputs once"}}};
}

// The cause under which a line stalls the kernel longest.
std::string_view main_cause(const LineReport& line) {
  const auto most = std::max_element(line.stalled_ns.begin(), line.stalled_ns.end());
  return trace::cause_name(static_cast<trace::Cause>(most - line.stalled_ns.begin()));
}

std::string bounds_text(const NkiReport& r) {
  const double total = kernel_ns(r.run.timing);
  std::string text = fmt::format("\n  {:<14}{:>12.3f} us\n", "latency", total / 1e3);
  for (const BoundRow& row : bound_rows(r.run.timing.bound)) {
    if (row.ns == 0) continue;
    text += fmt::format("  {:<14}{:>12.3f} us{:>8.1f} %{}{}\n", row.name, row.ns / 1e3,
                        total > 0 ? 100 * row.ns / total : 0, *row.what ? "   " : "", row.what);
  }
  return text;
}

std::string traffic_text(const TraceTiming& timing) {
  const Summary& m = timing.timing.summary;
  std::string text = "\nHBM traffic\n";
  const auto row = [&text](std::string_view name, int64_t bytes) {
    text += fmt::format("  {:<14}{:>12.3f} MiB{:>18} bytes\n", name, nki_mebibytes(bytes), bytes);
  };
  row("read", m.hbm_read_bytes);
  row("written", m.hbm_write_bytes);
  row("compulsory", timing.compulsory_bytes);
  return text;
}

std::string nki_engines_text(const Summary& m) {
  std::string text = fmt::format("\n{:<16}{:>10}{:>16}\n", "engine", "busy", "instructions");
  const auto row = [&text](std::string_view name, double percent, int64_t count) {
    text += fmt::format("  {:<14}{:>8.1f} %{:>16}\n", name, percent, count);
  };
  row("Tensor", m.tensor.active_time_percent, m.tensor.instruction_count);
  row("Vector", m.vector.active_time_percent, m.vector.instruction_count);
  row("Scalar", m.scalar.active_time_percent, m.scalar.instruction_count);
  row("GpSimd", m.gpsimd.active_time_percent, m.gpsimd.instruction_count);
  row("DMA", m.dma_active_time_percent, m.dma_transfer_count);
  return text;
}

std::string nki_memory_text(const TraceTiming& timing) {
  std::string text = "\nmemory, KiB per partition at the peak\n";
  for (const auto& [name, peak] :
       {std::pair("SBUF", &timing.sbuf), std::pair("PSUM", &timing.psum)}) {
    text += fmt::format("  {:<6}{:>8.2f} of {:>6.2f}   {}\n", name,
                        static_cast<double>(peak->bytes) / 1024,
                        static_cast<double>(peak->capacity) / 1024, peak->tensors);
  }
  return text;
}

// Who the kernel waits for; the times of all lines add up to the latency.
std::string lines_text(const NkiReport& r) {
  const std::vector<LineReport>& lines = r.run.timing.lines;
  const double total = kernel_ns(r.run.timing);
  std::string text = fmt::format("\n{:>12}{:>9}  {:<12}{:>12}{:>12}   {}\n", "stalls, us", "",
                                 "cause", "busy, us", "calls", "line");
  for (size_t i = 0; i < std::min(lines.size(), kLinesShown); ++i) {
    const LineReport& line = lines[i];
    text += fmt::format("{:>12.3f}{:>7.1f} %  {:<12}{:>12.3f}{:>12}   {} {}\n",
                        line.stalled() / 1e3, total > 0 ? 100 * line.stalled() / total : 0,
                        main_cause(line), line.busy_ns / 1e3, line.instructions,
                        r.header.place(line.source), r.header.sources[line.source].function);
  }
  if (lines.size() > kLinesShown) text += fmt::format("and {} more\n", lines.size() - kLinesShown);
  return text +
         "cause: what the next instruction waits for: data of a DMA; a PSUM bank; rotation of "
         "SBUF\n"
         "tiles; dependency on a result; issue, an engine or queue at work; an activation table\n";
}

std::string others_text(const NkiReport& r) {
  if (r.others.empty()) return "";
  const double total = kernel_ns(r.run.timing);
  std::string text = fmt::format("\n{:<40}{:>14}\n", "beside it", "latency, us");
  for (const NkiRun& other : r.others) {
    text += fmt::format("  {:<38}{:>14.3f}{:>+9.1f} %\n", other.name, kernel_ns(other.timing) / 1e3,
                        total > 0 ? 100 * (kernel_ns(other.timing) / total - 1) : 0);
  }
  return text;
}

Json causes_json(const std::array<double, trace::kCauses>& ns) {
  Json json = Json::object();
  for (size_t i = 0; i < ns.size(); ++i) {
    json[std::string(trace::cause_name(static_cast<trace::Cause>(i)))] = ns[i];
  }
  return json;
}

Json peak_json(const trace::MemoryPeak& peak) {
  return {
      {"bytes_per_partition", peak.bytes}, {"capacity", peak.capacity}, {"tensors", peak.tensors}};
}

Json timing_json(const TraceTiming& timing) {
  Json summary = Json::object(), bounds = Json::object();
  for (const auto& [name, value] : timing.timing.summary.fields()) summary[name] = value;
  for (const BoundRow& row : bound_rows(timing.bound)) bounds[row.name] = row.ns;
  return {{"latency_us", kernel_ns(timing) / 1e3},
          {"instructions", timing.timing.instructions},
          {"bounds_ns", bounds},
          {"compulsory_bytes", timing.compulsory_bytes},
          {"sbuf", peak_json(timing.sbuf)},
          {"psum", peak_json(timing.psum)},
          {"summary", summary},
          {"remedies", timing.timing.remedies},
          {"notes", timing.notes}};
}

Json lines_json(const NkiReport& r) {
  Json lines = Json::array();
  for (const LineReport& line : r.run.timing.lines) {
    const trace::SourceLine& source = r.header.sources[line.source];
    lines.push_back({{"file", r.header.files[source.file]},
                     {"line", source.line},
                     {"function", source.function},
                     {"instructions", line.instructions},
                     {"dma_bytes", line.bytes},
                     {"busy_ns", line.busy_ns},
                     {"stalled_ns", causes_json(line.stalled_ns)},
                     {"waited_ns", causes_json(line.waited_ns)}});
  }
  return lines;
}

}  // namespace

std::string to_text(const NkiReport& r) {
  const TraceTiming& timing = r.run.timing;
  std::string text =
      fmt::format("simulated (no Trainium was used)\n\n{} on {} ({}): {} instructions\n",
                  r.run.name, r.device.name, r.device.core, timing.timing.instructions);
  text += bounds_text(r) + traffic_text(timing) + nki_engines_text(timing.timing.summary) +
          nki_memory_text(timing) + lines_text(r) + others_text(r);
  for (const std::string& remedy : timing.timing.remedies) text += fmt::format("\n{}\n", remedy);
  for (const std::string& note : timing.notes) text += fmt::format("\nnote: {}\n", note);
  return text;
}

Json to_json(const NkiReport& r) {
  Json json = {{"note", "simulated (no Trainium was used)"},
               {"kernel", r.run.name},
               {"dialect", r.header.dialect},
               {"device", r.device.name}};
  json.update(timing_json(r.run.timing));
  json["lines"] = lines_json(r);
  json["others"] = Json::array();
  for (const NkiRun& other : r.others) {
    Json entry = {{"name", other.name}};
    entry.update(timing_json(other.timing));
    json["others"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace neuronmm::apps
