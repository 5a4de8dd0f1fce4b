#pragma once
// How far ahead of the program's order a schedule may run before SBUF or PSUM is full. It keeps
// what the program's order needs from here on, with what was made early on top, so that going on in
// the program's order is possible at any time.

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

  // Whether the tensors that an instruction would make fit, if nothing before `oldest` is left to
  // do. Transfers get a half of SBUF: loads that nothing keeps waiting would else take all of it,
  // and leave nothing to the engines. If not, `full` is the memory that they do not fit into.
  bool fits(uint32_t instruction, bool transfer, uint32_t oldest, Memory& full);
  // The instruction is scheduled. Returns which memories have room that they did not have before.
  std::array<bool, 2> run(uint32_t instruction, uint32_t oldest);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Tensor {
    uint32_t first = 0, last = 0;  // in the program's order
    uint32_t accesses = 0;         // instructions to come
    int32_t size = 0;              // bytes or banks
    Memory memory = kSbuf;
    bool made = false;
  };
  // The most that is needed at any of [oldest, end). What is asked for many times between two
  // instructions is found once.
  int32_t most_needed(Memory memory, uint32_t oldest, uint32_t end);
  struct Most {
    uint32_t oldest = kNone;     // none: not known
    std::vector<int32_t> until;  // from `oldest` to each of the instructions behind it
  };
  // The tensors whose memory counts, of an instruction; each once.
  const std::vector<uint32_t>& roots(uint32_t instruction);

  const InstructionList& list_;
  const Contents& contents_;
  std::vector<Tensor> tensors_;                 // by root; size 0: does not count
  std::array<std::vector<int32_t>, 2> needed_;  // by memory and instruction
  std::array<Most, 2> most_;
  std::array<int32_t, 2> capacity_{};
  std::vector<uint32_t> roots_;
};

}  // namespace neuronmm::trace
