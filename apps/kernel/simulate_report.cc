#include "kernel/simulate_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "report_writer.h"

namespace neuronmm::apps {
namespace {

using simulator::Summary;
constexpr double kPartitionsOfBuffer = 128;

// Converts bytes per partition to the size of SBUF, whose 128 partitions are equally full.
double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / kMiB; }
double sbuf_mebibytes(int64_t per_partition) {
  return static_cast<double>(per_partition) * kPartitionsOfBuffer / kMiB;
}

// Returns the bytes per ns that DMA sustains: the sum of its engines or the core's share of HBM,
// whichever is less.
double dma_bandwidth(const simulator::DeviceSpec& device) {
  return std::min(device.dma_engines * device.dma_bandwidth, double{device.hbm_bandwidth});
}

std::string settings_text(const KernelSettings& s) {
  std::string text = fmt::format("{}: {}\n\n", s.kernel->name, s.kernel->description);
  text += fmt::format("  {:<14}{}\n", "shape", shape_text(s));
  text += fmt::format("  {:<14}{} ({}), {} operands, {} sums\n", "device", s.device.name,
                      s.device.core, dtype_text(s.options.dtype), dtype_text(s.options.accumulate));
  if (s.cores > 1) {
    text += fmt::format(
        "  {:<14}{} at once, M {} in all; shape, bytes and engines are those of one, which has "
        "{:.0f} GB/s of HBM; the latency has the {:.1f} us that every such launch takes\n",
        "cores", s.cores, s.cores * s.shape.M, s.device.hbm_bandwidth.value,
        s.device.kernel_fixed_ns / 1e3);
  }
  if (s.kernel->left_layout) {
    text += fmt::format("  {:<14}{}\n", "left operand",
                        s.options.left == kernels::Layout::kNatural ? "X [M, K]" : "X^T [K, M]");
  }
  return text + fmt::format("  {:<14}{}{}\n", "tiling", tiling_text(s.tiling),
                            s.tiling_given || s.kernel->tiling.empty()
                                ? ""
                                : "   (default, fitted to SBUF)");
}

// Writes the latency, its two lower bounds, and the utilization of the machine.
std::string time_text(const KernelSettings& s, const SimulateReport& report) {
  const Summary& m = report.timing.summary;
  const double peak = s.device.peak_flops_per_ns() / 1e3;
  std::string text = fmt::format("\n  {:<14}{:>10.4f} ms\n", "latency", m.milliseconds());
  text += fmt::format("  {:<14}{:>10.4f} ms   its instructions back to back\n", "Tensor bound",
                      report.tensor_bound_ms());
  text += fmt::format("  {:<14}{:>10.4f} ms   its bytes at {:.0f} GB/s\n", "DMA bound",
                      report.dma_bound_ms(s.device), dma_bandwidth(s.device));
  text += fmt::format("  {:<14}{:>10.1f} %    of {:.1f} TFLOP/s\n", "MFU", m.mfu_estimated_percent,
                      peak);
  return text + fmt::format("  {:<14}{:>10.1f} %    of {:.0f} GB/s\n", "MBU",
                            m.mbu_estimated_percent, s.device.hbm_stack_bandwidth.value);
}

// Writes the simulated bytes and those of the closed formula, which are equal without spills.
std::string traffic_text(const KernelSettings& s, const Summary& m) {
  const kernels::Cost cost = s.kernel->cost(s.shape, s.tiling, s.options);
  const auto row = [](std::string_view name, int64_t bytes, std::string_view note) {
    return fmt::format("  {:<14}{:>10.2f} MiB {:>16}{}{}\n", name, mebibytes(bytes), bytes,
                       note.empty() ? "" : "   ", note);
  };
  return "\nHBM traffic                         bytes\n" + row("read", m.hbm_read_bytes, "") +
         row("written", m.hbm_write_bytes, "") +
         row("  spill saves", m.spill_save_bytes, "of the bytes written") +
         row("  spill loads", m.spill_reload_bytes, "of the bytes read") +
         row("total", m.hbm_bytes(), "") +
         row("closed formula", cost.hbm_bytes(), s.kernel->hbm_bytes) +
         row("compulsory", m.inputs_outputs_weights_size_bytes,
             s.kernel->experts ? "each operand once, with the experts that nobody chooses"
                               : "each operand once");
}

// Writes how busy the engines are. An engine is busy while an instruction or transfer is in flight,
// including the wait for its result.
std::string engines_text(const Summary& m) {
  std::string text = fmt::format("\n{:<16}{:>10}{:>16}\n", "engine", "busy", "instructions");
  const auto row = [&text](std::string_view name, double percent, int64_t count,
                           std::string_view note = "") {
    text += fmt::format("  {:<14}{:>8.1f} %{:>16}{}\n", name, percent, count, note);
  };
  row("Tensor", m.tensor.active_time_percent, m.tensor.instruction_count,
      fmt::format("   {} matmul, {:.4g} GFLOP", m.matmul_instruction_count,
                  m.hardware_flops / 1e9));
  row("Vector", m.vector.active_time_percent, m.vector.instruction_count);
  row("Scalar", m.scalar.active_time_percent, m.scalar.instruction_count);
  row("GpSimd", m.gpsimd.active_time_percent, m.gpsimd.instruction_count);
  row("DMA", m.dma_active_time_percent, m.dma_transfer_count,
      fmt::format("   {:.0f} bytes on average", m.dma_transfer_average_bytes));
  return text;
}

// Writes the memory of each buffer where most is live.
std::string memory_text(const KernelSettings& s, const SimulateReport& report) {
  const simulator::Timing& timing = report.timing;
  std::string text =
      fmt::format("\nSBUF: {:.2f} MiB at the peak, {:.2f} usable\n",
                  sbuf_mebibytes(timing.sbuf_wanted.peak), sbuf_mebibytes(timing.sbuf_capacity));
  for (const tile::MemoryShare& share : timing.sbuf_wanted.live) {
    const tile::Buffer& buffer = s.program.buffer(share.buffer);
    text +=
        fmt::format("  {:<14}{:>10.2f} MiB   {} cop{}\n", buffer.name, sbuf_mebibytes(share.amount),
                    buffer.copies, buffer.copies == 1 ? "y" : "ies");
  }
  text += fmt::format("PSUM: {} banks of {}\n", report.check.psum.peak, s.limits.psum_banks);
  for (const tile::MemoryShare& share : report.check.psum.live) {
    text +=
        fmt::format("  {:<14}{:>10} banks\n", s.program.buffer(share.buffer).name, share.amount);
  }
  return text;
}

// Writes what the compiler would do, as far as published profiles show it, and what would make that
// unnecessary.
std::string remedies_text(const SimulateReport& report) {
  const simulator::Timing& timing = report.timing;
  if (timing.remedies.empty()) return "";
  std::string text =
      fmt::format("\nSBUF is short of {:.2f} MiB. Simulated as the compiler would help itself:\n",
                  sbuf_mebibytes(timing.sbuf_wanted.peak - timing.sbuf_capacity));
  for (const std::string& remedy : timing.remedies) text += fmt::format("  {}\n", remedy);
  text += "It would fit with one of: ";
  for (size_t i = 0; i < report.changes.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : "; ", report.changes[i]);
  }
  return text + (report.changes.empty() ? "no single change of the tiling\n" : "\n");
}

// Writes the errors of the values. The bound follows every rounding, so it is rigorous but loose.
// The rms error says more.
std::string values_text(const KernelSettings& s, const ValueReport& v) {
  std::string text = fmt::format(
      "\nvalues on random inputs, interpreted in {:.2f} s; {} of {} rows against fp64\n", v.seconds,
      v.rows, s.cores * s.shape.M);
  text += fmt::format("  {:<14}{:>10.3g}   bound there {:.3g}\n", "largest error", v.largest_error,
                      v.bound_there);
  // An fp32 result is as exact as its sums, whose roundings depend on their order.
  const std::string expected =
      s.options.dtype == DType::kBF16
          ? fmt::format("   independent roundings make about {:.3g}", v.expected_rms_error)
          : "";
  text += fmt::format("  {:<14}{:>10.3g}{}\n", "rms error", v.rms_error, expected);
  text += fmt::format("  {:<14}{:>10.3g}\n", "rms of values", v.rms);
  return text + fmt::format("  every element is within {:.3g} of its worst-case bound{}\n",
                            v.worst_share, v.worst_share > 1 ? ": WRONG" : "");
}

using Json = nlohmann::ordered_json;

Json memory_json(const KernelSettings& s, const SimulateReport& report) {
  const auto buffers = [&s](const tile::MemoryUse& use) {
    Json shares = Json::object();
    for (const tile::MemoryShare& share : use.live) {
      shares[s.program.buffer(share.buffer).name] = share.amount;
    }
    return shares;
  };
  const simulator::Timing& timing = report.timing;
  return {{"sbuf_bytes_per_partition", timing.sbuf_wanted.peak},
          {"sbuf_usable_bytes_per_partition", timing.sbuf_capacity},
          {"sbuf_buffers", buffers(timing.sbuf_wanted)},
          {"psum_banks", report.check.psum.peak},
          {"psum_buffers", buffers(report.check.psum)}};
}

// Returns all settings that are needed to run the same simulation again.
Json settings_json(const KernelSettings& s) {
  Json shape = Json::object();
  for (const char letter : s.kernel->dimensions) {
    shape[std::string(1, letter)] = dimension_of(s.shape, letter);
  }
  Json tiling = Json::object();
  for (const auto& [name, value] : s.tiling.values()) tiling[name] = value;
  return {{"kernel", s.kernel->name},
          {"shape", shape},
          {"device", s.device.name},
          {"cores", s.cores},
          {"dtype", dtype_text(s.options.dtype)},
          {"accumulate", dtype_text(s.options.accumulate)},
          {"left", s.options.left == kernels::Layout::kNatural ? "natural" : "transposed"},
          {"tiling", tiling}};
}

}  // namespace

double SimulateReport::dma_bound_ms(const simulator::DeviceSpec& device) const {
  return static_cast<double>(timing.summary.hbm_bytes()) / dma_bandwidth(device) * 1e-6;
}

std::string to_text(const KernelSettings& s, const SimulateReport& report) {
  std::string text = "simulated (no Trainium was used)\n\n" + settings_text(s) +
                     time_text(s, report) + traffic_text(s, report.timing.summary) +
                     engines_text(report.timing.summary) + memory_text(s, report) +
                     remedies_text(report);
  if (report.values) text += values_text(s, *report.values);
  return text;
}

std::string to_json(const KernelSettings& s, const SimulateReport& report) {
  Json summary = Json::object();
  for (const auto& [name, value] : report.timing.summary.fields()) summary[name] = value;
  const kernels::Cost cost = s.kernel->cost(s.shape, s.tiling, s.options);
  Json json = {{"note", "simulated (no Trainium was used)"},
               {"settings", settings_json(s)},
               {"summary", summary},
               {"tensor_bound_ms", report.tensor_bound_ms()},
               {"dma_bound_ms", report.dma_bound_ms(s.device)},
               {"closed_formula",
                {{"hbm_read_bytes", cost.hbm_read_bytes},
                 {"hbm_write_bytes", cost.hbm_write_bytes},
                 {"flops", cost.flops},
                 {"nc_matmuls", cost.nc_matmuls}}},
               {"memory", memory_json(s, report)},
               {"remedies", report.timing.remedies}};
  if (report.values) {
    const ValueReport& v = *report.values;
    json["values"] = {{"rows", v.rows},
                      {"largest_error", v.largest_error},
                      {"bound_of_largest_error", v.bound_there},
                      {"worst_share_of_bound", v.worst_share},
                      {"rms_error", v.rms_error},
                      {"rms", v.rms}};
  }
  return json.dump(2) + "\n";
}

}  // namespace neuronmm::apps
