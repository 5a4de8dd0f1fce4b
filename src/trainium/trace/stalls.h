#pragma once
// Explains why a kernel takes as long as it does: what each source line waits for, and which waits
// form the chain from the kernel's first instruction to its last. The reports of `neuronmm nki`
// show both.

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "trainium/simulator/device_spec.h"
#include "trainium/simulator/job.h"

namespace neuronmm::trace {

// The reason why an instruction waits before it begins.
enum class Cause : uint8_t {
  kData,        // The data of a DMA.
  kBank,        // A PSUM bank that is still read or written.
  kRotation,    // SBUF memory that is used again and still read or written.
  kDependency,  // The result of an engine.
  kIssue,       // Its engine, port or queue, which is busy.
  kTable        // The load of an activation table.
};
inline constexpr size_t kCauses = 6;
std::string_view cause_name(Cause cause);  // For example "data", "bank", "rotation".

// The work and the waits of a source line. Times are in ns.
struct LineStalls {
  int64_t instructions = 0, bytes = 0;  // `bytes` are those that DMA moves.
  int64_t pieces = 0;  // The parts of these bytes that are contiguous in HBM, at least one each.
  double busy_ns = 0;  // Time on its engines; transfers count from issue to last byte.
  // By cause: the time that its engine or queue stood idle.
  std::array<double, kCauses> waited_ns{};
  // By cause: the part of the kernel's time that is charged to this line (see StallLog).
  std::array<double, kCauses> stalled_ns{};
  double stalled() const {
    double total = 0;
    for (const double ns : stalled_ns) total += ns;
    return total;
  }
};

// A part of the kernel's time: an instruction waits, for `cause`, until one on `unit` is done.
struct ChainPart {
  Cause cause = Cause::kIssue;
  simulator::Unit unit = simulator::Unit::kDma;
  // The number in Header::tensors of the memory that is waited for; kNoTensor if it is none.
  uint32_t tensor = kNoTensor;
  double ns = 0;

  static constexpr uint32_t kNoTensor = UINT32_MAX >> 3;  // Numbers have 29 bits.
};

// Notes for every instruction which earlier instruction it waited for. From the instruction that
// ends last, these links form a chain back to the begin of the kernel. The time between the begins
// of two linked instructions is charged to the line of the earlier one, under the cause of the
// later one's wait. The times of all lines thus add up to the kernel's. The log takes 24 bytes per
// instruction.
class StallLog {
 public:
  static constexpr uint32_t kNoInstruction = UINT32_MAX;

  StallLog(size_t lines, int64_t instructions);

  struct Wait {
    Cause cause = Cause::kIssue;
    uint32_t earlier = kNoInstruction;  // The instruction that ended the wait.
    double ns = 0;                      // How long the engine or queue stood idle.
    uint32_t tensor = ChainPart::kNoTensor;
  };
  // `subject` is any number that the caller gives to instructions of one kind.
  void record(uint32_t instruction, uint32_t line, uint32_t subject, const simulator::Run& run,
              const Wait& wait);
  void transfer(uint32_t line, int64_t bytes, int64_t pieces) {
    lines_[line].bytes += bytes;
    lines_[line].pieces += pieces;
  }

  // Returns the work and the waits of all instructions so far, by line.
  std::vector<LineStalls> lines() const;
  // Returns the kernel's time by subject. It is charged as by line.
  std::map<uint32_t, double> charged() const;
  // Returns the kernel's time by cause, engine and tensor, longest first. It is charged as by line.
  std::vector<ChainPart> chain() const;

 private:
  struct Link {
    double begin = 0;
    uint32_t earlier = kNoInstruction;  // The instruction that ended the wait.
    uint32_t line_and_cause = 0;        // line · kCauses + cause.
    uint32_t subject = 0;
    uint32_t tensor_and_unit = 0;  // The wait's tensor · 8 + the instruction's unit.
  };
  template <typename Visit>
  void walk(const Visit& visit) const;

  std::vector<LineStalls> lines_;
  std::vector<Link> links_;
  uint32_t last_ = kNoInstruction;
  double end_ = 0;
};

// The latest instruction of every engine and queue, which a later one may have waited for.
class Predecessors {
 public:
  explicit Predecessors(const simulator::DeviceSpec& device);

  uint32_t last_on(simulator::Unit unit) const { return engines_[static_cast<size_t>(unit)]; }
  uint32_t last_on_port() const { return port_; }
  void engine(uint32_t instruction, simulator::Unit unit);

  struct Queue {
    double free = 0;  // When it can issue the next transfer.
    uint32_t instruction = StallLog::kNoInstruction;
  };
  Queue queue(int number) const;
  void transfer(uint32_t instruction, const simulator::Run& run);
  // Returns the transfer that was issued last before a time, of those that are remembered.
  uint32_t transfer_before(double time) const;

 private:
  struct Issued {
    double end = 0;
    uint32_t instruction = StallLog::kNoInstruction;
  };
  struct Ring {
    std::vector<Issued> flying;  // The last transfers, as many as may be in flight.
    size_t at = 0;
    double issue = -1e18;
    uint32_t instruction = StallLog::kNoInstruction;
  };
  double issue_ns_;
  std::array<uint32_t, simulator::kNumEngines> engines_;
  uint32_t port_ = StallLog::kNoInstruction;
  std::vector<Ring> queues_;
  // Assumed: a transfer waits for none that was issued more than 64 transfers before it.
  static constexpr size_t kRemembered = 64;
  std::array<Issued, kRemembered> recent_;  // The last transfers, whose `end` is their issue.
  size_t next_recent_ = 0;
};

}  // namespace neuronmm::trace
