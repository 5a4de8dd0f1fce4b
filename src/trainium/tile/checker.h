#pragma once
// This file checks a tile program against the rules of the machine before anything runs. The
// commands that emit, simulate or export kernels call check(). The simulator and the emitter call
// check_structure(), because they cannot walk a malformed program.
//
// The checks are:
// * the program is well formed;
// * the operands of every instruction are in a memory and have a dtype that its engine accepts;
// * slices stay inside their buffers;
// * nothing is read before it is written;
// * SBUF and PSUM are large enough.
//
// Slices are checked at the first, the last full and the last iteration of every loop, in all
// combinations. This is enough for programs whose tiles grow or shrink monotonically with each loop
// variable, as in all programs of the builder. "Written before read" is checked here per buffer
// instance; the interpreter checks it per element.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/tile/memory_use.h"
#include "trainium/tile/program.h"

namespace neuronmm::tile {

// The sizes of a device that a program must respect. The defaults are those of trn1.
struct Limits {
  std::string device;
  int64_t sbuf_bytes_per_partition_usable = 176 * 1024;
  int64_t psum_banks = 8;
  int64_t psum_bank_bytes = 2048;
  int64_t partitions = 128;
  int64_t stationary_free = 128;
  int64_t moving_free = 512;
};

// A broken rule.
struct Violation {
  std::string message;  // The text, which names the instruction, the buffer and the numbers.
  // The instruction's label. It is empty if the program as a whole is wrong.
  std::string instruction;
  std::string buffer;
};

// The result of all checks.
struct CheckReport {
  std::vector<Violation> violations;  // Rules that the program breaks.
  // Messages about SBUF or PSUM that is too small for an otherwise correct program.
  std::vector<std::string> over_capacity;
  MemoryUse sbuf;  // The use of SBUF, in bytes per partition.
  MemoryUse psum;  // The use of PSUM, in banks.

  bool ok() const { return violations.empty(); }
  bool fits() const { return over_capacity.empty(); }
};

// Runs all checks. If the structure is invalid, the report holds this one violation only.
CheckReport check(const Program& program, const Limits& limits);

// Checks that the numbers of loops, buffers and dimensions are valid, so that a program can be
// walked and printed. Fails with a message that names the buffer, loop or instruction.
Status check_structure(const Program& program);

}  // namespace neuronmm::tile
