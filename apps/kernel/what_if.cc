#include "kernel/what_if.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace neuronmm::apps {
namespace {

using simulator::DeviceSpec;
using simulator::Grade;
using simulator::Parameter;

// Parameters that count parts of the machine. A simulation keeps a record per part, so it needs
// some, but not too many.
constexpr std::string_view kParts[] = {"psum_banks", "dma_queues", "dma_depth"};
constexpr double kLeastParts = 4, kMostParts = 1024, kLargestValue = 1e9;

bool is_possible(std::string_view name, double value) {
  if (name == "dma_engines" || value > kLargestValue) return false;
  return std::ranges::count(kParts, name) == 0 ||
         (value == std::floor(value) && value >= kLeastParts && value <= kMostParts);
}

struct Change {
  double number = 0;
  bool factor = false;

  double apply_to(double value) const { return factor ? value * number : number; }
};

Result<Change> parse_change(const std::string& text, const std::string& value) {
  Change change;
  change.factor = value.ends_with('x');
  const char* const end = value.data() + value.size() - (change.factor ? 1 : 0);
  const auto [at, error] = std::from_chars(value.data(), end, change.number);
  if (error != std::errc() || at != end || !std::isfinite(change.number) || change.number <= 0) {
    return fail("--what-if {}: expected a positive number, or a factor like 2x, found {:?}", text,
                value);
  }
  return change;
}

Result<int64_t> parse_copies(const std::string& text, const Change& change) {
  if (change.factor || change.number != std::floor(change.number) || change.number > 4096) {
    return fail("--what-if {}: expected a whole number of buffers, at most 4096", text);
  }
  return static_cast<int64_t>(change.number);
}

// Shortens the cost of transfers and chunks. Rows that are twice as long are half as many, and so
// are transfers, so each costs half as much per byte, from its trigger to its last chunk.
Status lengthen_rows(const std::string& text, const Change& change, DeviceSpec& device) {
  if (!change.factor) return fail("--what-if {}: expected a factor like 2x", text);
  for (Parameter* const cost :
       {&device.dma_issue_ns, &device.dma_software_ns, &device.dma_instruction_ns,
        &device.dma_trigger_ns, &device.dma_transfer_ns, &device.dma_descriptor_ns,
        &device.dma_descriptor_floor}) {
    cost->value /= change.number;
  }
  return {};
}

Status change_parameter(const std::string& text, const std::string& name, const Change& change,
                        DeviceSpec& device) {
  std::vector<std::string_view> names;
  for (const simulator::ParameterRow& row : simulator::parameter_rows()) {
    names.push_back(row.name);
    if (row.name != name) continue;
    Parameter& parameter = device.*row.member;
    const double value = change.apply_to(parameter);
    if (!is_possible(name, value)) {
      return fail("--what-if {}: the model does not take {} = {}", text, name, value);
    }
    parameter = {value, Grade::kAssumed, "--what-if"};
    return {};
  }
  return fail(
      "--what-if {}: expected buffers, buffers.NAME, dma_row, reloads, round_trips, transfers or "
      "one of {}",
      text, fmt::join(names, ", "));
}

constexpr std::pair<std::string_view, trace::LeftOut> kLeftOut[] = {
    {"reloads", trace::LeftOut::kReloads},
    {"round_trips", trace::LeftOut::kRoundTrips},
    {"transfers", trace::LeftOut::kTransfers}};

}  // namespace

Result<WhatIf> parse_what_if(const std::string& text, const DeviceSpec& device) {
  const size_t sign = text.find('=');
  if (sign == std::string::npos) return fail("--what-if {}: expected NAME=VALUE", text);
  const std::string name = text.substr(0, sign);
  WhatIf out = {.text = text, .device = device, .buffer_limits = {}};
  for (const auto& [what, left_out] : kLeftOut) {
    if (name != what) continue;
    if (text.substr(sign + 1) != "none") return fail("--what-if {}: expected {}=none", text, what);
    out.left_out = left_out;
    return out;
  }
  NMM_ASSIGN(const Change change, parse_change(text, text.substr(sign + 1)));
  constexpr std::string_view kOne = "buffers.";
  if (name == "buffers") {
    NMM_ASSIGN(out.buffer_limits.copies, parse_copies(text, change));
  } else if (name.starts_with(kOne)) {
    NMM_ASSIGN(out.buffer_limits.copies_of[name.substr(kOne.size())], parse_copies(text, change));
    out.buffer_limits.splits = true;
  } else if (name == "dma_row") {
    NMM_TRY(lengthen_rows(text, change, out.device));
  } else {
    NMM_TRY(change_parameter(text, name, change, out.device));
  }
  return out;
}

namespace {

// Fails if the kernel has no tensor of a name whose buffers change.
Status check_names(const WhatIf& what_if, const trace::Header& header) {
  std::set<std::string> names;
  for (const trace::TensorKind& kind : header.tensors) {
    if (kind.on_chip()) names.insert(kind.name);
  }
  for (const auto& [name, copies] : what_if.buffer_limits.copies_of) {
    if (names.contains(name)) continue;
    return fail("expected a tensor of the kernel in SBUF or PSUM ({}), found {:?}",
                fmt::join(names, ", "), name);
  }
  return {};
}

}  // namespace

Result<trace::TraceTiming> simulate_with(const WhatIf& what_if, const trace::TraceFile& file,
                                         bool as_written) {
  NMM_TRY(check_names(what_if, file.header()));
  trace::TraceOptions options;
  options.as_written = as_written;
  options.buffer_limits = what_if.buffer_limits;
  options.left_out = what_if.left_out;
  return trace::simulate(file, what_if.device, options);
}

}  // namespace neuronmm::apps
