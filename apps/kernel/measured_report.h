#pragma once
// Puts the measured times of a profile next to the simulated ones, by instruction class. The report
// of `neuronmm nki --measured` shows them.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernel/measured_profile.h"
#include "trainium/trace/class_work.h"

namespace neuronmm::apps {

// The work of one class of instructions on one engine, measured and predicted. A class that only
// one side has is 0 on the other.
struct ClassComparison {
  std::string engine, name;  // The name is the opcode's name in nki.isa, if there is one.
  int64_t measured_instructions = 0, predicted_instructions = 0;
  double measured_ns = 0, predicted_ns = 0;
};

// Returns the classes of both sides, those with the longest measured time first. Loads of
// weights and instructions that only synchronize are two classes that are never predicted.
std::vector<ClassComparison> compare_classes(const MeasuredProfile& measured,
                                             const std::vector<trace::ClassWork>& predicted);

// Return the comparison. `latency_ms` is the predicted latency.
std::string measured_text(const MeasuredProfile& measured, const std::string& file,
                          const std::vector<ClassComparison>& classes, double latency_ms);
nlohmann::ordered_json measured_json(const MeasuredProfile& measured, const std::string& file,
                                     const std::vector<ClassComparison>& classes);

}  // namespace neuronmm::apps
