#include "kernel/nki_what_if.h"

#include <charconv>
#include <cmath>
#include <optional>

namespace neuronmm::apps {
namespace {

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

Result<WhatIf> read_what_if(const std::string& text, const simulator::DeviceSpec& device) {
  WhatIf out{text, device, {}};
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  const bool factor = value.ends_with('x');
  if (factor) value.pop_back();
  const auto found = number(value);
  if (!found || *found <= 0) {
    return fail("--what-if {}: expected NAME=VALUE or NAME=FACTORx with a number above 0", text);
  }
  if (name == "buffers") {
    if (factor || *found != std::floor(*found) || *found > 1e6) {
      return fail("--what-if {}: expected a whole number of buffers", text);
    }
    out.rotation.copies = static_cast<int64_t>(*found);
    return out;
  }
  std::string names = "buffers";
  for (const simulator::ParameterRow& row : simulator::parameter_rows()) {
    names += fmt::format(", {}", row.name);
    if (row.name != name) continue;
    simulator::Parameter& parameter = out.device.*row.member;
    // What counts things that the model makes lists of stays within reason.
    const double changed = factor ? parameter.value * *found : *found;
    const bool counts = name == "dma_queues" || name == "dma_depth" || name == "psum_banks";
    if (name == "dma_engines" || changed > 1e9 ||
        (counts && (changed != std::floor(changed) || changed < 4 || changed > 1024))) {
      return fail("--what-if {}: the model does not take {} = {}", text, name, changed);
    }
    parameter.value = changed;
    return out;
  }
  return fail("--what-if {}: expected one of {}", text, names);
}

}  // namespace neuronmm::apps
