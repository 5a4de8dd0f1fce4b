#include "trainium/tile/checker.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "trainium/tile/accesses.h"
#include "trainium/tile/rules.h"

namespace neuronmm::tile {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

class Checker {
 public:
  Checker(const Program& program, const Limits& limits, std::vector<Violation>& violations)
      : program_(program),
        limits_(limits),
        violations_(violations),
        values_(static_cast<size_t>(program.num_loops)),
        names_(static_cast<size_t>(program.num_loops)) {}

  // Inputs and their views hold values from the beginning. Everything else must be written before
  // it is read.
  void run() {
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.role == HbmRole::kInput || buffer.is_view()) written_.insert(id_of(buffer));
    }
    check_first_iteration(program_.body);
    check_boundary_iterations(program_.body);
  }

 private:
  BufferId id_of(const Buffer& buffer) const {
    return static_cast<BufferId>(&buffer - program_.buffers.data());
  }

  // Reports each rule once per instruction, at the first iteration that breaks it. Messages that
  // differ only in their numbers count as the same rule.
  void report(const Instruction& instruction, BufferId buffer, const std::string& what,
              bool with_loops) {
    std::string rule = what;
    std::erase_if(rule, [](char c) { return c >= '0' && c <= '9'; });
    if (!reported_.insert({&instruction, buffer, rule}).second) return;
    const std::string& name = program_.buffer(buffer).name;
    std::string message = fmt::format("\"{}\", {}: {}", instruction.label, name, what);
    if (with_loops && !open_.empty()) message += " (at" + iteration() + ")";
    violations_.push_back({std::move(message), instruction.label, name});
  }

  // Returns the loops around the instruction and their values, for the message: "m=0 k=3".
  std::string iteration() const {
    std::string text;
    for (const LoopId id : open_) {
      const auto i = static_cast<size_t>(id);
      text += fmt::format(" {}={}", names_[i], values_[i]);
    }
    return text;
  }

  // Visits the nodes in the order of the first iteration and checks that what each instruction
  // reads has been written before.
  void check_first_iteration(const std::vector<Node>& body) {
    for (const Node& node : body) {
      if (const auto* loop = std::get_if<Loop>(&node)) {
        open_.push_back(loop->id);
        check_first_iteration(loop->body);
        open_.pop_back();
      } else if (const auto* allocate = std::get_if<Allocate>(&node)) {
        // A new instance holds nothing, whatever the previous instance held.
        written_.erase(allocate->buffer);
        allocated_in_[allocate->buffer] = open_;
      } else {
        check_instruction(std::get<Instruction>(node));
      }
    }
  }

  // Checks what does not depend on the iteration: the memories and dtypes of the operands, and that
  // something was written to them before.
  void check_instruction(const Instruction& instruction) {
    const auto fail_with = [&](BufferId buffer, const std::string& what) {
      report(instruction, buffer, what, false);
    };
    check_operands(program_, instruction, fail_with);
    const std::vector<Operand> operands = operands_of(instruction.operation);
    for (const Operand& operand : operands) {
      if (!operand.written && !written_.contains(operand.access->buffer)) {
        fail_with(operand.access->buffer, "read before anything is written to it");
      }
    }
    const auto* matmul = std::get_if<NcMatmul>(&instruction.operation);
    if (matmul && matmul->always_adds && !written_.contains(matmul->dst.buffer)) {
      fail_with(matmul->dst.buffer, "added to before anything is written to it");
    }
    // The buffer of a sum over a loop must be allocated outside of that loop. A buffer that the
    // loop allocates is new in each iteration, so later iterations would add to memory that was
    // never written.
    if (matmul) {
      const std::vector<LoopId>& around = allocated_in_[matmul->dst.buffer];
      for (const LoopId id : matmul->sum_loops) {
        if (std::find(around.begin(), around.end(), id) == around.end()) continue;
        fail_with(matmul->dst.buffer,
                  fmt::format("summed over loop {}, which allocates it anew: later iterations add "
                              "to what was never written",
                              id));
      }
    }
    written_.insert(operands.front().access->buffer);
  }

  // Checks extents at the first, the last full and the last iteration of every loop, in all
  // combinations. The tiles of all other iterations have the sizes and the alignment of one of
  // these.
  void check_boundary_iterations(const std::vector<Node>& body) {
    for (const Node& node : body) {
      if (const auto* loop = std::get_if<Loop>(&node)) {
        const auto id = static_cast<size_t>(loop->id);
        const int64_t trips = loop->trip_count(values_);
        names_[id] = loop->name;
        open_.push_back(loop->id);
        // The values are a set, because in loops of one or two iterations some of them are equal.
        for (const int64_t value : std::set<int64_t>{0, trips - 2, trips - 1}) {
          if (value < 0 || value >= trips) continue;
          values_[id] = value;
          check_boundary_iterations(loop->body);
        }
        values_[id] = 0;
        open_.pop_back();
      } else if (const auto* instruction = std::get_if<Instruction>(&node)) {
        check_extents(program_, *instruction, limits_, values_,
                      [&](BufferId buffer, const std::string& what) {
                        report(*instruction, buffer, what, true);
                      });
      }
    }
  }

  const Program& program_;
  const Limits& limits_;
  std::vector<Violation>& violations_;
  std::vector<int64_t> values_;
  std::vector<std::string> names_;
  std::vector<LoopId> open_;
  std::set<BufferId> written_;
  std::map<BufferId, std::vector<LoopId>> allocated_in_;
  std::set<std::tuple<const Instruction*, BufferId, std::string>> reported_;
};

std::string on_device(const Limits& limits) {
  return limits.device.empty() ? "" : fmt::format(" on {}", limits.device);
}

// Returns a message that lists the buffers that are live at the peak, largest first: "SBUF needs
// 26.1 MiB: strip 8.0 + x 4.0; 22.0 usable on trn1".
std::string sbuf_message(const Program& program, const Limits& limits, const MemoryUse& use) {
  const double unit = static_cast<double>(limits.partitions) / kMiB;
  std::string parts;
  for (const MemoryShare& share : use.live) {
    parts +=
        fmt::format("{}{} {:.1f}", parts.empty() ? "" : " + ", program.buffer(share.buffer).name,
                    static_cast<double>(share.amount) * unit);
  }
  return fmt::format(
      "SBUF needs {:.1f} MiB: {}; {:.1f} usable{}", static_cast<double>(use.peak) * unit, parts,
      static_cast<double>(limits.sbuf_bytes_per_partition_usable) * unit, on_device(limits));
}

// PSUM is counted in whole banks, because a sum cannot begin in the middle of a bank.
std::string psum_message(const Program& program, const Limits& limits, const MemoryUse& use) {
  std::string parts;
  for (const MemoryShare& share : use.live) {
    parts += fmt::format("{}{} {}", parts.empty() ? "" : " + ", program.buffer(share.buffer).name,
                         share.amount);
  }
  return fmt::format("PSUM needs {} banks: {}; {} usable{}", use.peak, parts, limits.psum_banks,
                     on_device(limits));
}

}  // namespace

// A program with an invalid structure has no iterations to walk, so check() stops after that error.
CheckReport check(const Program& program, const Limits& limits) {
  CheckReport report;
  if (const Status structure = check_structure(program); !structure.ok()) {
    report.violations.push_back({structure.error().message, "", ""});
    return report;
  }
  // The declaration itself has too many partitions, so the message names no instruction.
  for (const Buffer& buffer : program.buffers) {
    if (buffer.memory == Memory::kHbm || buffer.shape[0] <= limits.partitions) continue;
    report.violations.push_back({fmt::format("buffer {}: {} partitions, at most {}", buffer.name,
                                             buffer.shape[0], limits.partitions),
                                 "", buffer.name});
  }
  Checker(program, limits, report.violations).run();
  report.sbuf = sbuf_use(program);
  report.psum = psum_use(program, limits.psum_bank_bytes);
  if (report.sbuf.peak > limits.sbuf_bytes_per_partition_usable) {
    report.over_capacity.push_back(sbuf_message(program, limits, report.sbuf));
  }
  if (report.psum.peak > limits.psum_banks) {
    report.over_capacity.push_back(psum_message(program, limits, report.psum));
  }
  return report;
}

}  // namespace neuronmm::tile
