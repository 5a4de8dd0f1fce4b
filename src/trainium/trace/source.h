#pragma once
// The instructions of a trace as a Source of the simulated core (simulator/core.h). simulate()
// (simulate.h) makes one per run.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "trainium/simulator/core.h"
#include "trainium/trace/class_work.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/evidence.h"
#include "trainium/trace/memory_counters.h"
#include "trainium/trace/price_cache.h"
#include "trainium/trace/spilling.h"
#include "trainium/trace/stalls.h"
#include "trainium/trace/tensor_memory.h"

namespace neuronmm::trace {

class TraceSource {
 public:
  // `left_out` says by instruction which transfers take no time; it may be empty. `spilling`
  // manages SBUF if it is too small; otherwise it is null.
  TraceSource(const TraceFile& file, const Contents& contents, const simulator::DeviceSpec& device,
              const BufferLimits& buffer_limits, const std::vector<bool>& left_out,
              SpillingMemory* spilling);

  // Lets the timeline count the memory in use. Call it before the first next().
  void count_memory(const simulator::DeviceSpec& device, simulator::Timeline& timeline);

  // Moves to the next instruction. Returns false at the end, and at an instruction that cannot run;
  // status() then says why.
  bool next();
  const Status& status() const { return status_; }

  const simulator::Job& job() const { return priced_->job; }
  int64_t streamed() const { return priced_->streamed; }
  simulator::TensorWork tensor_work() const { return priced_->tensor; }
  simulator::Transfer transfer();

  double inputs_ready() const;
  double stationary_ready() const;
  double moving_ready() const;
  double output_free(simulator::Unit unit) const;
  void ran(const simulator::Run& run);
  void complete(simulator::Unit unit, double stationary_read, double read, double visible);
  void count_bytes(simulator::Summary& summary) const;
  const std::string& label();
  const std::string& target() const;

  const StallLog& stalls() const { return stalls_; }
  const WorkByOperation& work() const { return work_; }
  std::vector<ChargedTime> charged() const;
  const TensorMemory& memory() const { return memory_; }

 private:
  struct Operand {
    TensorState* state = nullptr;  // Null if nothing waits for it.
    std::span<const uint32_t> cells;
    bool writes = false, stationary = false;
    int32_t first_partition = 0;
  };
  Status resolve();
  Status make_operands_resident();
  void finish_last();
  void leave_out();
  static double readable(const Operand& operand);
  StallLog::Wait wait_of(const simulator::Run& run) const;
  StallLog::Wait wait_of_transfer(const simulator::Run& run) const;
  StallLog::Wait wait_for_data(double at, simulator::Unit unit) const;

  // The access of a key, together with the key.
  struct Known {
    Access key;
    const Access* access = nullptr;
  };
  bool fills(const Access& access, uint32_t root) const;
  bool reads(uint32_t root) const;
  const Access& access_of(size_t operand, const OperandRecord& record, bool has_run_time_index);

  const TraceFile& file_;
  const Header& header_;
  const Contents& contents_;
  Cursor cursor_;
  OperandSlots slots_;
  std::vector<Known> known_;     // By slot: the previous access.
  uint32_t index_ = UINT32_MAX;  // The instruction's index.
  std::vector<uint32_t> roots_;  // The roots of its operands.
  std::vector<Operand> operands_;
  std::vector<uint32_t> forms_;
  PriceCache prices_;
  const Priced* priced_ = nullptr;
  const std::vector<bool>& left_out_;
  TensorMemory memory_;
  SpillingMemory* spilling_;
  std::vector<SpillingMemory::Visit> visits_;
  StallLog stalls_;
  WorkByOperation work_;
  Predecessors predecessors_;
  std::unordered_map<uint64_t, std::string> labels_;  // By operation and source line.
  // By operation: the operand that the Tensor engine holds. An index after the last operand means
  // none.
  std::vector<size_t> stationary_;
  std::vector<bool> replaces_;            // By operation: a DMA that replaces what it writes.
  std::vector<bool> has_run_time_index_;  // By operation: the data tells the place of an operand.
  double registers_ready_ = 0;            // When all registers so far hold their numbers.
  std::optional<MemoryCounters> counters_;
  double begin_ = 0;      // When the instruction begins.
  uint64_t content_ = 0;  // Identifies the bytes that fill a tile (Transfer::content).
  Status status_;
};

}  // namespace neuronmm::trace
