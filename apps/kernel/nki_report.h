#pragma once
// What `neuronmm nki` found, as text and as JSON.

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
  std::string name;  // as it was asked for: "FILE.py:KERNEL"
  trace::Header header;
  trace::TraceTiming timing;
  std::vector<TracedResult> results;  // of a kernel that was run here

  double latency_ms() const { return timing.timing.summary.milliseconds(); }
};

// The same kernel where something is otherwise (what_if.h). Nothing where it does not fit then.
struct WhatIfResult {
  std::string text;
  std::optional<double> latency_ms;
  std::string refusal;
};

struct NkiReport {
  KernelRun run;
  std::optional<KernelRun> other;  // --compare
  std::vector<WhatIfResult> what_ifs;
};

// A figure that no schedule beats, and what it is.
struct NamedBound {
  std::string_view name, what;
  double ms = 0;
};
std::vector<NamedBound> bounds_of(const KernelRun& run);  // the largest first

// How far kernels like this one were off where they had been predicted blind, or that none was.
std::string band_text(const KernelRun& run, const simulator::DeviceSpec& device);

// "data 62 %, issue 38 %": the causes of a line's stalls that are at least a twentieth of them.
std::string causes_text(const trace::LineReport& line);

// `lines`: how many source lines are listed.
std::string to_text(const NkiReport& report, const simulator::DeviceSpec& device, size_t lines);
nlohmann::ordered_json to_json(const NkiReport& report, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
