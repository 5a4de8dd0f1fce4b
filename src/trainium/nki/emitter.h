#pragma once
// This file writes a tile program as NKI source: one Python module with one kernel. The commands
// that emit and export kernels call it. Loops stay loops, so the length of the source does not
// depend on the shape. Sizes and steps appear by their names. The last tile of a ragged dimension
// has `min(...)` elements. In the legacy dialect no size may depend on the iteration, so there the
// last tile follows the loop over the other tiles (peel.h).
//
// Buffers are declared where the program allocates them, so a buffer declared in a loop is new in
// every iteration. The compiler decides how many copies rotate. NKI cannot state this number; it
// knows only fixed addresses, which switch the compiler's own rotation off. The program's number
// appears as a comment.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainium/nki/release.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

struct Dimension {  // A dimension of the problem, such as "M", 4096.
  std::string name;
  int64_t size = 0;
};
struct Operand {  // A buffer in HBM and the dimensions that it lies along, such as "x", {"M", "K"}.
  std::string name;
  std::vector<std::string> dimensions;
  // The dimension that a product with it is summed over, if it is a weight: "K".
  std::string contraction = {};
  // The number of values, such as "E", of an operand of int32; empty for every other one.
  std::string values = {};
};
// A loop's step_name with its size and meaning, such as "BM", 8, "row tiles of 128 in a block of
// X".
struct BlockSize {
  std::string name;
  int64_t tiles = 1;
  std::string meaning;
};

// The facts about a kernel that the program itself does not contain.
struct Description {
  std::string summary;     // The first line of the docstrings: "Y = X·U·V".
  std::string provenance;  // The command that made the program.
  std::string reference;   // The computation in Python, over the operands: "x @ u @ v".
  std::vector<std::string> functions = {};  // The torch functions that the reference calls: "silu".
  std::vector<Dimension> dimensions;
  std::vector<Operand> operands;
  std::vector<BlockSize> blocks;
  // The SBUF that the device has for a program. If the buffers that names hold would need more, the
  // source sets names to None to let buffers go. With 0 it never does.
  int64_t sbuf_bytes_per_partition = 0;
  Release release = kNewestRelease;
  // The cores that a launch takes. The program's outermost loop says what each core does.
  int64_t cores = 1;
};

// Returns the source text. Fails if the program is malformed, if the description does not match it,
// or if the dialect cannot express what the program does.
Result<std::string> emit(const tile::Program& program, const Description& description);

}  // namespace neuronmm::nki
