#pragma once
// Checks a program against the rules of the machine before anything runs: that it is well formed,
// that every instruction's operands are where and what its engine accepts, that slices stay inside
// their buffers, that nothing is read before it is written, and that SBUF and PSUM are large
// enough.
//
// Slices are checked at the first, the last full and the last iteration of every loop, nested. That
// is enough for programs whose tiles grow or shrink monotonically with each loop variable, as those
// of the builder do. "Written before read" is checked per buffer instance here, per element by the
// interpreter.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/tile/memory_use.h"
#include "trainium/tile/program.h"

namespace neuronmm::tile {

struct Limits {
  std::string device;
  int64_t sbuf_bytes_per_partition_usable = 176 * 1024;
  int64_t psum_banks = 8;
  int64_t psum_bank_bytes = 2048;
  int64_t partitions = 128;
  int64_t stationary_free = 128;
  int64_t moving_free = 512;
};

struct Violation {
  std::string message;      // names the instruction, the buffer and the numbers
  std::string instruction;  // its label; empty: the program as a whole
  std::string buffer;
};

struct CheckReport {
  std::vector<Violation> violations;       // the program is wrong
  std::vector<std::string> over_capacity;  // right, but needs more SBUF or PSUM than there is
  MemoryUse sbuf;                          // bytes per partition
  MemoryUse psum;                          // banks

  bool ok() const { return violations.empty(); }
  bool fits() const { return over_capacity.empty(); }
};

CheckReport check(const Program& program, const Limits& limits);

// Loop, buffer and dimension numbers are valid, so that a program can be walked and printed.
Status check_structure(const Program& program);

}  // namespace neuronmm::tile
