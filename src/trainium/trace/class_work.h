#pragma once
// Adds up the work of a simulated kernel by instruction and engine, so that a measured profile can
// stand next to it (`neuronmm nki --measured`).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainium/simulator/costs.h"
#include "trainium/simulator/job.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

// The work of one instruction name on one engine. Overlapping work is added.
struct ClassWork {
  std::string name;  // The name in nki.isa, for example "nc_matmul".
  simulator::Unit unit = simulator::Unit::kDma;
  int64_t instructions = 0;
  double busy_ns = 0;  // Transfers count from issue to last byte.
};

// Collects work by operation of a trace's header.
class WorkByOperation {
 public:
  explicit WorkByOperation(size_t operations) : work_(operations) {}

  void add(size_t operation, const simulator::Run& run) {
    Work& work = work_[operation][static_cast<size_t>(run.unit)];
    ++work.instructions;
    work.busy_ns += run.end - run.begin;
  }

  // Returns the work by name and engine, in the order of the names.
  std::vector<ClassWork> classes(const Header& header) const {
    std::map<std::pair<std::string, size_t>, Work> sums;
    for (size_t i = 0; i < work_.size(); ++i) {
      for (size_t unit = 0; unit < kUnits; ++unit) {
        const Work& work = work_[i][unit];
        if (work.instructions == 0) continue;
        Work& sum = sums[{header.operations[i].name, unit}];
        sum.instructions += work.instructions;
        sum.busy_ns += work.busy_ns;
      }
    }
    std::vector<ClassWork> found;
    for (const auto& [key, work] : sums) {
      found.push_back(
          {key.first, static_cast<simulator::Unit>(key.second), work.instructions, work.busy_ns});
    }
    return found;
  }

 private:
  static constexpr size_t kUnits = simulator::kNumEngines + 1;
  struct Work {
    int64_t instructions = 0;
    double busy_ns = 0;
  };
  std::vector<std::array<Work, kUnits>> work_;
};

}  // namespace neuronmm::trace
