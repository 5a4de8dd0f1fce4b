#pragma once
// Tells how far ahead of the program's order a schedule may run before SBUF or PSUM is full. The
// budget is the memory that the program's order needs from here on, plus the tensors that were made
// early. The scheduler can thus always continue in the program's order. Only list_schedule.cc uses
// it.

#include <array>
#include <cstdint>
#include <vector>

#include "trainium/simulator/device_spec.h"
#include "trainium/trace/contents.h"
#include "trainium/trace/instruction_list.h"

namespace neuronmm::trace {

class MemoryBudget {
 public:
  enum Memory : uint8_t { kSbuf, kPsum };

  MemoryBudget(const InstructionList& list, const Contents& contents,
               const simulator::DeviceSpec& device);

  // Returns whether the tensors that an instruction would make fit, if every instruction before
  // `oldest` is done. Transfers may fill half of SBUF, because loads that wait for nothing would
  // otherwise leave nothing to the engines. If the result is false, `full` is the memory that is
  // full.
  bool fits(uint32_t instruction, bool transfer, uint32_t oldest, Memory& full);
  // Notes that the instruction is scheduled. Returns which memories have gained free space.
  std::array<bool, 2> run(uint32_t instruction, uint32_t oldest);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Tensor {
    uint32_t first = 0, last = 0;  // In the program's order.
    uint32_t accesses = 0;         // Accesses to come.
    int64_t size = 0;              // Bytes per partition, or banks.
    Memory memory = kSbuf;
    bool allocated = false;
  };
  // Returns the most memory that is needed anywhere in [oldest, end). The maxima are cached,
  // because many calls come between two instructions.
  int64_t most_needed(Memory memory, uint32_t oldest, uint32_t end);
  struct Most {
    uint32_t oldest = kNone;     // kNone: unknown.
    std::vector<int64_t> until;  // The maximum from `oldest` up to each later instruction.
  };
  // Returns the tensors on chip that an instruction accesses, each once.
  const std::vector<uint32_t>& roots(uint32_t instruction);

  const InstructionList& list_;
  const Contents& contents_;
  std::vector<Tensor> tensors_;  // By root; size 0 if the tensor does not count.
  std::array<std::vector<int64_t>, 2>
      needed_;  // By memory and instruction: bytes per partition, or banks.
  std::array<Most, 2> most_;
  std::array<int64_t, 2> capacity_{};  // By memory.
  std::vector<uint32_t> roots_;
};

}  // namespace neuronmm::trace
