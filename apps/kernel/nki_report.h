#pragma once
// Writes the results of `neuronmm nki` as text and as JSON. nki.cc fills the report, and the HTML
// page (nki_page.h) shows the same facts with the functions declared here. Nothing here can fail.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernel/measured_report.h"
#include "kernel/nki_advice.h"
#include "kernel/nki_tracer.h"
#include "trainium/simulator/device_spec.h"
#include "trainium/trace/file.h"
#include "trainium/trace/simulate.h"

namespace neuronmm::apps {

// A kernel that was simulated.
struct KernelRun {
  std::string name;  // Given by the user: "FILE.py:KERNEL" or a stored trace's path.
  trace::Header header;
  trace::TraceTiming timing;
  // A kernel that its compiler may reorder is simulated in both orders, and the faster one counts.
  bool is_as_written = false;
  std::optional<double> other_order_ms = {};  // The latency in the other order.
  // The kernel's results and their errors. Empty for a stored trace, since its kernel was not run.
  std::vector<TracedResult> results;

  double latency_ms() const { return timing.timing.summary.milliseconds(); }
};

// The latency of the same kernel with a change (what_if.h).
struct WhatIfResult {
  std::string text;                  // The change, as the user gave it.
  std::optional<double> latency_ms;  // Empty if the changed kernel cannot be simulated.
  std::string refusal;               // The reason in that case: usually, it does not fit.
};

struct NkiReport {
  KernelRun run;
  std::optional<KernelRun> other;  // The kernel of --compare.
  std::vector<WhatIfResult> what_ifs;
  Advice advice;
  std::optional<MeasuredProfile> measured;  // The profile of --measured, from `measured_file`.
  std::string measured_file;
};

// A time that no schedule beats, with its name and its meaning.
struct NamedBound {
  std::string_view name, what;
  double ms = 0;
};
std::vector<NamedBound> bounds_of(const KernelRun& run);  // Returns the largest first.

// Returns the band of the latency as a text, with the reason why it is wider than for a measured
// device (trace/error_band.h).
std::string band_text(const KernelRun& run, const simulator::DeviceSpec& device);

// Returns the causes of a line's stalls, largest first, for example "data 62 %, issue 38 %". Causes
// of less than a twentieth of the stalls are left out.
std::string causes_text(const trace::LineReport& line);

// Return the report. The text lists the first `lines` source lines, and the JSON all of them.
// `device` is the one that was simulated.
std::string to_text(const NkiReport& report, const simulator::DeviceSpec& device, size_t lines);
nlohmann::ordered_json to_json(const NkiReport& report, const simulator::DeviceSpec& device);

}  // namespace neuronmm::apps
