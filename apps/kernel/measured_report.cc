#include "kernel/measured_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/quantities.h"

namespace neuronmm::apps {
namespace {

constexpr double kNsPerUs = 1e3;
constexpr const char* kSynchronization = "synchronization";
constexpr const char* kTransfers = "transfers";
constexpr const char* kWeights = "loads of weights";

// An opcode or an instruction whose class has another name. Documented: the opcodes of the examples
// in the guides of neuron-explorer. Every other opcode has its own name in small letters.
constexpr std::pair<std::string_view, const char*> kAliases[] = {
    {"matmul", "nc_matmul"},
    {"nc_matmul_mx", "nc_matmul"},
    {"nc_transpose", "nc_matmul"},
    {"ldweights", kWeights},
    {"activate", "activation"},
    {"activation_reduce", "activation"},
    {"activate2", "activation"},
    {"copy", "tensor_copy"},
    {"event_semaphore", kSynchronization},
    {"drain", kSynchronization},
    {"nop", kSynchronization},
    {"write", kSynchronization},
};

std::string class_of_name(std::string name) {
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  for (const auto& [alias, class_name] : kAliases) {
    if (alias == name) return class_name;
  }
  // An engine starts a transfer by such an instruction. The transfer itself is in another table.
  if (name.starts_with("pseudo_") || name.starts_with("dma_")) return kSynchronization;
  return name;
}

std::string engine_of(simulator::Unit unit) {
  constexpr std::array<const char*, 5> kNames = {"tensor", "vector", "scalar", "gpsimd", "dma"};
  return kNames[static_cast<size_t>(unit)];
}

std::string difference(double measured, double predicted) {
  if (measured <= 0 || predicted <= 0) return "";
  return fmt::format("{:+.1f} %", 100 * (predicted - measured) / measured);
}

}  // namespace

std::vector<ClassComparison> compare_classes(const MeasuredProfile& measured,
                                             const std::vector<trace::ClassWork>& predicted) {
  std::map<std::pair<std::string, std::string>, ClassComparison> found;
  const auto row = [&found](const std::string& engine, const std::string& name) -> auto& {
    ClassComparison& comparison = found[{engine, name}];
    comparison.engine = engine;
    comparison.name = name;
    return comparison;
  };
  for (const MeasuredOpcode& opcode : measured.opcodes) {
    ClassComparison& comparison = row(opcode.engine, class_of_name(opcode.opcode));
    comparison.measured_ns += opcode.busy_ns;
    comparison.measured_instructions += opcode.instructions;
  }
  for (const trace::ClassWork& work : predicted) {
    const bool transfer = work.unit == simulator::Unit::kDma;
    ClassComparison& comparison =
        row(engine_of(work.unit), transfer ? kTransfers : class_of_name(work.name));
    comparison.predicted_ns += work.busy_ns;
    comparison.predicted_instructions += work.instructions;
  }
  std::vector<ClassComparison> sorted;
  for (auto& [key, comparison] : found) sorted.push_back(std::move(comparison));
  std::ranges::stable_sort(sorted, std::greater(), [](const ClassComparison& c) {
    return std::pair(c.measured_ns, c.predicted_ns);
  });
  return sorted;
}

std::string measured_text(const MeasuredProfile& measured, const std::string& file,
                          const std::vector<ClassComparison>& classes, double latency_ms) {
  const double latency_us = latency_ms * 1e3, measured_us = measured.latency_ns / kNsPerUs;
  std::string text =
      fmt::format("\nmeasured in {}{}\n  {:<8}{:<22}{:>14}{:>9}{:>14}{:>9}{:>12}\n", file,
                  measured.schema.empty() ? "" : fmt::format(" (schema {})", measured.schema),
                  "engine", "class", "measured", "count", "predicted", "count", "difference");
  const auto row = [&text](const std::string& engine, const std::string& name, double left,
                           const std::string& left_count, double right,
                           const std::string& right_count) {
    text += fmt::format("  {:<8}{:<22}{:>11.2f} us{:>9}{:>11.2f} us{:>9}{:>12}\n", engine, name,
                        left, left_count, right, right_count, difference(left, right));
  };
  row("all", "latency", measured_us, "", latency_us, "");
  for (const ClassComparison& c : classes) {
    row(c.engine, c.name, c.measured_ns / kNsPerUs, std::to_string(c.measured_instructions),
        c.predicted_ns / kNsPerUs, std::to_string(c.predicted_instructions));
  }
  text += fmt::format(
      "  note: predicted times of nc_matmul are without the {}, which run one product ahead, and "
      "{} is never predicted\n",
      kWeights, kSynchronization);
  for (const std::string& note : measured.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

nlohmann::ordered_json measured_json(const MeasuredProfile& measured, const std::string& file,
                                     const std::vector<ClassComparison>& classes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ClassComparison& c : classes) {
    rows.push_back({{"engine", c.engine},
                    {"class", c.name},
                    {"measured_ms", c.measured_ns / kNsPerMs},
                    {"measured_instructions", c.measured_instructions},
                    {"predicted_ms", c.predicted_ns / kNsPerMs},
                    {"predicted_instructions", c.predicted_instructions}});
  }
  return {{"file", file},
          {"schema", measured.schema},
          {"latency_ms", measured.latency_ns / kNsPerMs},
          {"classes", rows},
          {"notes", measured.notes}};
}

}  // namespace neuronmm::apps
