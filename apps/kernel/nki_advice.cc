#include "kernel/nki_advice.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "kernel/advice_changes.h"
#include "kernel/quantities.h"
#include "kernel/what_if.h"
#include "trainium/trace/launch.h"

namespace neuronmm::apps {
namespace {

using simulator::DeviceSpec;
using simulator::Unit;
using trace::Cause;
using trace::ChainPart;
using trace::Header;
using trace::TraceTiming;

constexpr double kWorthDoing = 0.02;   // Assumed: the least gain that is shown.
constexpr double kWorthSaying = 0.05;  // Assumed: the least share of the time that is named.
// Assumed: the instructions that all simulations of the advice may have together, some 10 s.
constexpr int64_t kMostSimulated = 20'000'000;

std::string_view unit_name(Unit unit) {
  constexpr std::string_view kNames[] = {"Tensor", "Vector", "Scalar", "GpSimd", "DMA"};
  return kNames[static_cast<size_t>(unit)];
}

std::string what_is_waited_for(const ChainPart& part) {
  const bool dma = part.unit == Unit::kDma;
  switch (part.cause) {
    case Cause::kData:
      return "loads";
    case Cause::kBank:
      return "banks of PSUM in use";
    case Cause::kRotation:
      return "tiles of SBUF in use";
    case Cause::kTable:
      return "tables of activations";
    case Cause::kDependency:
      return dma ? "stores" : fmt::format("results of {}", unit_name(part.unit));
    case Cause::kIssue:
      break;
  }
  return fmt::format("a busy {}", unit_name(part.unit));
}

// Says which engine has the most work and how long it stands still, and what the kernel waits for.
std::string waits_of(const TraceTiming& timing) {
  const simulator::Summary& m = timing.timing.summary;
  const std::pair<std::string_view, double> engines[] = {{"Tensor", m.tensor.instruction_time},
                                                         {"Vector", m.vector.instruction_time},
                                                         {"Scalar", m.scalar.instruction_time},
                                                         {"GpSimd", m.gpsimd.instruction_time}};
  const auto busiest = std::ranges::max(engines, {}, [](const auto& e) { return e.second; });
  std::map<std::string, double> shares;
  for (const ChainPart& part : timing.chain) {
    shares[what_is_waited_for(part)] += part.ns * 1e-9 / m.total_time;
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [what, share] : shares) {
    if (share >= kWorthSaying) order.emplace_back(share, what);
  }
  std::ranges::sort(order, std::greater());
  std::vector<std::string> parts;
  for (const auto& [share, what] : order)
    parts.push_back(fmt::format("{} ({:.0f} %)", what, 100 * share));
  if (parts.empty()) return {};
  const std::string waits = fmt::format("the kernel waits for {}", fmt::join(parts, ", "));
  if (busiest.second <= 0) return waits;
  return fmt::format("{} has the most work and stands still {:.0f} % of the time; {}",
                     busiest.first, 100 * (1 - busiest.second / m.total_time), waits);
}

// Estimates the launch on two cores that share the work equally.
std::optional<Suggestion> second_core(const Header& header, const TraceTiming& timing,
                                      const DeviceSpec& device) {
  if (header.legacy() || header.cores > 1 || device.logical_core < 2) return std::nullopt;
  Header two = header;
  two.cores = 2;
  const double work_ns = timing.timing.summary.total_time * 1e9 - timing.fixed_ns;
  const double halved = trace::device_of_launch(device, two).kernel_fixed_ns + work_ns / 2;
  return Suggestion{fmt::format("launch it on both cores with {}[2] and split the work: at best, "
                                "estimated and not simulated",
                                header.kernel),
                    "", halved / kNsPerMs};
}

}  // namespace

Advice advise(const trace::TraceFile& file, const TraceTiming& timing, bool as_written,
              const DeviceSpec& device) {
  Advice advice;
  advice.waits = waits_of(timing);
  const std::vector<CandidateChange> changes = changes_to_try(file.header(), timing, device);
  const auto affordable =
      static_cast<size_t>(kMostSimulated / std::max<int64_t>(1, file.header().instructions));
  for (const CandidateChange& change : changes) {
    if (advice.tried == affordable) break;
    ++advice.tried;
    const auto what_if = parse_what_if(change.what_if, device);
    if (!what_if.ok()) continue;  // A tensor's name that the flag cannot take.
    const auto changed = simulate_with(*what_if, file, as_written);
    if (!changed.ok()) continue;
    advice.suggestions.push_back(
        {change.text, change.what_if, changed->timing.summary.milliseconds()});
  }
  advice.untried = changes.size() - advice.tried;
  if (auto both = second_core(file.header(), timing, device)) {
    advice.suggestions.push_back(std::move(*both));
  }
  const double most = timing.timing.summary.milliseconds() / (1 + kWorthDoing);
  std::erase_if(advice.suggestions, [most](const Suggestion& s) { return s.latency_ms > most; });
  std::ranges::stable_sort(advice.suggestions, {}, &Suggestion::latency_ms);
  std::set<std::string> said;  // The fastest of several sizes of one change stays.
  std::erase_if(advice.suggestions,
                [&said](const Suggestion& s) { return !said.insert(s.text).second; });
  return advice;
}

std::string advice_text(const Advice& advice, double latency_ms) {
  std::string text = "\nwhat to change, most valuable first; each change alone, simulated\n";
  if (!advice.waits.empty()) text += fmt::format("  {}\n", advice.waits);
  for (const Suggestion& each : advice.suggestions) {
    text += fmt::format("  {:>6.2f}x{:>12}   {}\n", latency_ms / each.latency_ms,
                        time_of(each.latency_ms), each.text);
    if (!each.what_if.empty()) text += fmt::format("{:24}--what-if {}\n", "", each.what_if);
  }
  if (advice.suggestions.empty()) {
    text += fmt::format("  nothing: none of {} changes gains {:.0f} %\n", advice.tried,
                        100 * kWorthDoing);
  }
  if (advice.untried > 0) {
    text += fmt::format("  {} changes were not simulated, because the kernel is long\n",
                        advice.untried);
  }
  return text;
}

nlohmann::ordered_json advice_json(const Advice& advice) {
  nlohmann::ordered_json suggestions = nlohmann::ordered_json::array();
  for (const Suggestion& each : advice.suggestions) {
    nlohmann::ordered_json row = {{"change", each.text}, {"latency_ms", each.latency_ms}};
    row["simulated"] = !each.what_if.empty();
    if (!each.what_if.empty()) row["what_if"] = each.what_if;
    suggestions.push_back(row);
  }
  return {{"waits", advice.waits},
          {"suggestions", suggestions},
          {"tried", advice.tried},
          {"not_tried", advice.untried}};
}

}  // namespace neuronmm::apps
