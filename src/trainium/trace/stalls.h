#pragma once
// Why a kernel takes as long as it does: what each source line waits for, and what the kernel waits
// for on the way from its last instruction back to its first.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/job.h"

namespace neuronmm::trace {

// What an instruction waits for before it begins.
enum class Cause : uint8_t {
  kData,        // a DMA's data
  kBank,        // a PSUM bank that is still read or written
  kRotation,    // SBUF that is still read or written: memory that is used again
  kDependency,  // a result of an engine
  kIssue,       // its engine, port or queue, which is at work
  kTable        // an activation table
};
inline constexpr size_t kCauses = 6;
std::string_view cause_name(Cause cause);  // "data", "bank", "rotation", ...

// What a source line did. Times in ns.
struct LineStalls {
  int64_t instructions = 0, bytes = 0;       // bytes: over DMA
  double busy_ns = 0;                        // on its engines; transfers from issue to last byte
  std::array<double, kCauses> waited_ns{};   // its engine or queue stood idle for it, by cause
  std::array<double, kCauses> stalled_ns{};  // the kernel waited for it, by what that wait was for
  double stalled() const {
    double total = 0;
    for (const double ns : stalled_ns) total += ns;
    return total;
  }
};

// Notes for every instruction which earlier one it waited for. From the instruction that ends last,
// the chain of these leads back to the begin of the kernel. The time from the begin of a link to
// the begin of the next is charged to the earlier one's line, under the cause of the wait, so that
// the times of all lines add up to the kernel's. 16 bytes per instruction.
class StallLog {
 public:
  static constexpr uint32_t kNobody = UINT32_MAX;

  StallLog(size_t lines, int64_t instructions);

  struct Wait {
    Cause cause = Cause::kIssue;
    uint32_t whom = kNobody;  // the instruction that ended it
    double ns = 0;            // how long the engine or queue stood idle
  };
  void note(uint32_t instruction, uint32_t line, const simulator::Run& run, const Wait& wait);
  void transfer(uint32_t line, int64_t bytes) { lines_[line].bytes += bytes; }

  // Of all that has been noted, by line.
  std::vector<LineStalls> lines() const;

 private:
  struct Link {
    double begin = 0;
    uint32_t whom = kNobody;
    uint32_t line_and_cause = 0;  // line · kCauses + cause
  };
  std::vector<LineStalls> lines_;
  std::vector<Link> links_;
  uint32_t last_ = kNobody;
  double end_ = 0;
};

// The instructions that engines and queues have worked on last, for those that have to wait for
// them.
class Predecessors {
 public:
  explicit Predecessors(const simulator::DeviceSpec& device);

  uint32_t on(simulator::Unit unit) const { return engines_[static_cast<size_t>(unit)]; }
  uint32_t on_port() const { return port_; }
  void engine(uint32_t instruction, simulator::Unit unit);

  struct Queue {
    double free = 0;  // when it could issue the next
    uint32_t whom = StallLog::kNobody;
  };
  Queue queue(int number) const;
  void transfer(uint32_t instruction, const simulator::Run& run);

 private:
  struct Issued {
    double end = 0;
    uint32_t whom = StallLog::kNobody;
  };
  struct Ring {
    std::vector<Issued> flying;  // the last transfers, as many as may be on their way
    size_t at = 0;
    double issue = -1e18;
    uint32_t whom = StallLog::kNobody;
  };
  double issue_ns_;
  std::array<uint32_t, simulator::kNumEngines> engines_;
  uint32_t port_ = StallLog::kNobody;
  std::vector<Ring> queues_;
};

}  // namespace neuronmm::trace
