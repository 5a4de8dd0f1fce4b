#pragma once
// Compares the latency of a kernel with an expected one, so that a script can refuse a kernel that
// became slower: `neuronmm nki --baseline old.json` and `--expect-us 25`. A kernel passes if its
// predicted latency is above the expected one by at most its error band (trace/error_band.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernel/nki_report.h"

namespace neuronmm::apps {

// An earlier report of `neuronmm nki --json`.
struct Baseline {
  std::string path;
  std::string kernel, device;  // For example "kernel.py:add" and "trn2".
  double latency_ms = 0;
  // The inputs in the form of inputs_of(). Empty in reports of older versions.
  std::vector<std::string> inputs;
};

// Check the two options before the kernel runs. A baseline that --json would replace, even by a
// slower kernel's, is refused.
Status check_expected_us(std::optional<double> expected_us);
Status check_baseline(const std::string& baseline, const std::string& json);

// Reads the report. Errors: the file cannot be read, is no report of one kernel, or has no latency.
Result<Baseline> read_baseline(const std::string& path);

// Returns the inputs of a kernel in order, for example "bf16[128,512]".
std::vector<std::string> inputs_of(const trace::Header& header);

// How the latency of a kernel compares with an expected one.
struct LatencyVerdict {
  std::string option;  // "--baseline old.json" or "--expect-us 25".
  double expected_ms = 0, latency_ms = 0, band_percent = 0;

  double ratio() const { return latency_ms / expected_ms; }
  double most_ms() const { return expected_ms * (1 + band_percent / 100); }
  bool passed() const { return latency_ms <= most_ms(); }
};

// Compares a kernel with the latencies that the options gave. Fails if the baseline is that of
// another kernel, device or inputs. The folders of two kernels may differ.
Result<std::vector<LatencyVerdict>> compare_latency(const KernelRun& run,
                                                    const simulator::DeviceSpec& device,
                                                    const std::optional<Baseline>& baseline,
                                                    std::optional<double> expected_us);

// Return the verdicts as a section of the report, and as the value of the key "expected".
std::string verdict_text(const std::vector<LatencyVerdict>& verdicts);
nlohmann::ordered_json verdict_json(const std::vector<LatencyVerdict>& verdicts);

// Prints a line on standard error for each verdict that is not passed. Returns whether all are.
bool report_slow_kernel(const std::vector<LatencyVerdict>& verdicts);

}  // namespace neuronmm::apps
