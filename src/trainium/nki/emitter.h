#pragma once
// A tile program as NKI source: one Python module with one kernel. Loops stay loops, so that the
// length of the source does not depend on the shape; sizes and steps go by their names. The last
// tile of a ragged dimension is `min(...)` elements; in the legacy dialect, whose loops have no
// numbers, it stands behind the loop over the others (peel.h).
//
// Buffers are declared where the program allocates them, so that one declared in a loop is new in
// every iteration. How many copies rotate is the compiler's decision: NKI has no notion of it, only
// fixed addresses, which turn the compiler's own rotation off. The number that the program says
// stands as a comment.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/nki/dialect.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

struct Dimension {  // "M", 4096
  std::string name;
  int64_t size = 0;
};
struct Operand {  // "x", {"M", "K"}: a buffer in HBM and the dimensions that it lies along
  std::string name;
  std::vector<std::string> dimensions;
};
struct BlockSize {  // a loop's step_name: "BM", 8, "row tiles of 128 in a block of X"
  std::string name;
  int64_t tiles = 1;
  std::string meaning;
};

// What the program itself does not say.
struct Description {
  std::string summary;                      // "Y = X·U·V": the first line of the docstrings
  std::string provenance;                   // the command that made it
  std::string reference;                    // the same in Python, over the operands: "x @ u @ v"
  std::vector<std::string> functions = {};  // of torch that it calls: "silu"
  std::vector<Dimension> dimensions;
  std::vector<Operand> operands;
  std::vector<BlockSize> blocks;
  // What the device has for a program. The source lets go of buffers by name where it would
  // otherwise hold on to more; 0: it never does.
  int64_t sbuf_bytes_per_partition = 0;
  Dialect dialect = Dialect::kNki;
  int64_t cores = 1;  // that a launch takes; the program's outermost loop says what each does
};

// Fails where the program is not well formed, a name is not to be had, or the dialect has no words
// for what it does.
Result<std::string> emit(const tile::Program& program, const Description& description);

}  // namespace neuronmm::nki
