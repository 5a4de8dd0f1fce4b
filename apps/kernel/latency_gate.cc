#include "kernel/latency_gate.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "kernel/quantities.h"
#include "message.h"
#include "report_version.h"
#include "trainium/trace/error_band.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

// The largest report that is read. Assumed: a kernel of 100,000 source lines has a smaller one.
constexpr int64_t kMostBaselineBytes = int64_t{256} << 20;
constexpr double kUsPerMs = 1e3;
constexpr double kLongestMs = 1e9;

// Returns what identifies a kernel: its name without the folder.
std::string name_of_kernel(const std::string& kernel) {
  return fs::path(kernel).filename().string();
}

Error another(const Baseline& baseline, std::string_view what, const std::string& expected,
              const std::string& found) {
  return fail(
      "--baseline {}: expected a report of the {} {}, found {}; write a new one with --json",
      baseline.path, what, expected, found);
}

// Reports of programs before 1.0 have no version and the keys of version 1.
Status check_report_version(const io::JsonFields& report) {
  NMM_ASSIGN(const auto version, report.integer(kReportVersionKey));
  if (!version || *version == kReportVersion) return {};
  return report.wrong(kReportVersionKey,
                      fmt::format("{}; write a new report with --json", kReportVersion));
}

std::string comparison_of(const LatencyVerdict& verdict) {
  const std::string times = fmt::format("{:.3f} times as long", verdict.ratio());
  if (!verdict.passed()) {
    return fmt::format("{}: SLOWER by more than the band of {:.0f} %", times, verdict.band_percent);
  }
  if (verdict.ratio() <= 1) return times + ": not slower";
  return fmt::format("{}: slower, but within the band of {:.0f} %", times, verdict.band_percent);
}

}  // namespace

Status check_expected_us(std::optional<double> expected_us) {
  if (!expected_us || (std::isfinite(*expected_us) && *expected_us > 0)) return {};
  return fail("expected a number of microseconds above 0, found {}", *expected_us);
}

Status check_baseline(const std::string& baseline, const std::string& json) {
  if (baseline.empty() || baseline != json) return {};
  return fail(
      "expected another file than that of --json, which would replace it even if the "
      "kernel is slower");
}

Result<Baseline> read_baseline(const std::string& path) {
  const std::string option = "--baseline " + path;
  const auto json = io::read_json_object(path, kMostBaselineBytes);
  if (!json.ok()) return fail("--baseline {}", json.error().message);
  const io::JsonFields fields(*json, option);
  NMM_TRY(check_report_version(fields));
  if (fields.find("latency_ms") == nullptr || fields.find("kernel") == nullptr) {
    return fail(
        "{}: expected a report of one kernel, written by `neuronmm nki --json`, found an object "
        "without \"kernel\" and \"latency_ms\"",
        option);
  }
  Baseline baseline{.path = path, .kernel = "", .device = "", .inputs = {}};
  NMM_ASSIGN(baseline.kernel, fields.required_string("kernel"));
  NMM_ASSIGN(baseline.device, fields.required_string("device"));
  NMM_ASSIGN(const std::optional<double> latency, fields.number("latency_ms"));
  if (!latency || !(*latency > 0) || *latency > kLongestMs) {
    return fields.wrong("latency_ms", "a time above 0");
  }
  baseline.latency_ms = *latency;
  const nlohmann::json* const inputs = fields.find("inputs");
  if (inputs == nullptr) return baseline;
  if (!inputs->is_array()) return fields.wrong("inputs", "an array of texts");
  for (const nlohmann::json& input : *inputs) {
    if (!input.is_string()) return fields.wrong("inputs", "an array of texts");
    baseline.inputs.push_back(input.get<std::string>());
  }
  return baseline;
}

std::vector<std::string> inputs_of(const trace::Header& header) {
  std::vector<std::string> inputs;
  for (const trace::TensorKind& kind : header.tensors) {
    if (kind.role != tile::HbmRole::kInput || kind.view) continue;
    inputs.push_back(fmt::format("{}[{}]", kind.dtype.name, fmt::join(kind.shape, ",")));
  }
  return inputs;
}

Result<std::vector<LatencyVerdict>> compare_latency(const KernelRun& run,
                                                    const simulator::DeviceSpec& device,
                                                    const std::optional<Baseline>& baseline,
                                                    std::optional<double> expected_us) {
  LatencyVerdict verdict;
  verdict.latency_ms = run.latency_ms();
  verdict.band_percent = trace::error_band(run.timing, run.header.dialect, device.name).percent;
  std::vector<LatencyVerdict> verdicts;
  if (baseline) {
    const std::string kernel = name_of_kernel(run.name), before = name_of_kernel(baseline->kernel);
    const std::vector<std::string> inputs = inputs_of(run.header);
    if (kernel != before) return another(*baseline, "kernel", kernel, before);
    if (device.name != baseline->device) {
      return another(*baseline, "device", std::string(device.name), baseline->device);
    }
    if (!baseline->inputs.empty() && baseline->inputs != inputs) {
      return another(*baseline, "inputs", fmt::format("{}", fmt::join(inputs, " ")),
                     fmt::format("{}", fmt::join(baseline->inputs, " ")));
    }
    verdict.option = "--baseline " + baseline->path;
    verdict.expected_ms = baseline->latency_ms;
    verdicts.push_back(verdict);
  }
  if (expected_us) {
    verdict.option = fmt::format("--expect-us {}", *expected_us);
    verdict.expected_ms = *expected_us / kUsPerMs;
    verdicts.push_back(verdict);
  }
  return verdicts;
}

std::string verdict_text(const std::vector<LatencyVerdict>& verdicts) {
  if (verdicts.empty()) return "";
  std::string text = "\nexpected latency\n";
  for (const LatencyVerdict& verdict : verdicts) {
    text += fmt::format("  {:<28}{:>12}   the kernel takes {}\n", verdict.option,
                        time_of(verdict.expected_ms), comparison_of(verdict));
  }
  return text;
}

nlohmann::ordered_json verdict_json(const std::vector<LatencyVerdict>& verdicts) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const LatencyVerdict& verdict : verdicts) {
    rows.push_back({{"from", verdict.option},
                    {"expected_ms", verdict.expected_ms},
                    {"ratio", verdict.ratio()},
                    {"band_percent", verdict.band_percent},
                    {"at_most_ms", verdict.most_ms()},
                    {"passed", verdict.passed()}});
  }
  return rows;
}

bool report_slow_kernel(const std::vector<LatencyVerdict>& verdicts) {
  bool passed = true;
  for (const LatencyVerdict& verdict : verdicts) {
    if (verdict.passed()) continue;
    passed = false;
    std::fflush(stdout);  // The line stands behind the report if both go to one file.
    print_message(
        "neuronmm nki: {}: expected at most {} ({} and the band of {:.0f} %), found {}: the kernel "
        "is slower\n",
        verdict.option, time_of(verdict.most_ms()), time_of(verdict.expected_ms),
        verdict.band_percent, time_of(verdict.latency_ms));
  }
  return passed;
}

}  // namespace neuronmm::apps
