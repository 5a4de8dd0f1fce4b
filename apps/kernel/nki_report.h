#pragma once
// Writes the results of `neuronmm nki` as text and as JSON.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernel/nki_tracer.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/file.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::apps {

// A kernel that was simulated.
struct KernelRun {
  std::string name;  // As the user gave it: "FILE.py:KERNEL".
  trace::Header header;
  trace::TraceTiming timing;
  std::vector<TracedResult> results;  // Results of a kernel that was run here.

  double latency_ms() const { return timing.timing.summary.milliseconds(); }
};

// The latency of the same kernel with a change (what_if.h). latency_ms is empty if the kernel does
// not fit with it.
struct WhatIfResult {
  std::string text;
  std::optional<double> latency_ms;
  std::string refusal;
};

struct NkiReport {
  KernelRun run;
  std::optional<KernelRun> other;  // The kernel of --compare.
  std::vector<WhatIfResult> what_ifs;
};

// A time that no schedule beats, with its name and its meaning.
struct NamedBound {
  std::string_view name, what;
  double ms = 0;
};
std::vector<NamedBound> bounds_of(const KernelRun& run);  // Returns the largest first.

// Says how far predictions of kernels like this one were off when they were made blind, or that
// there was no such prediction.
std::string band_text(const KernelRun& run, const simulator::DeviceSpec& device);

// Returns for example "data 62 %, issue 38 %": the causes of at least a twentieth of a line's
// stalls.
std::string causes_text(const trace::LineReport& line);

// Returns the report. `lines` is the number of source lines that it lists.
std::string to_text(const NkiReport& report, const simulator::DeviceSpec& device, size_t lines);
nlohmann::ordered_json to_json(const NkiReport& report, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
