#pragma once
// Runs a tile program on values, as the hardware would compute them: operands in their dtype, sums
// in fp32 in PSUM (the 128 products of a matmul first, then tile after tile in the order of the
// program), a rounding to the buffer's dtype at every write to SBUF and HBM. A newly allocated
// instance of a buffer holds nothing, whatever its memory held before; reading an element that was
// not written is a fault.

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "trainium/tile/counts.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

// What a program did wrong.
struct Fault {
  enum class Kind { kMalformed, kOutOfBounds, kShapes, kUnwritten };
  Kind kind = Kind::kMalformed;
  std::string instruction;  // its label
  std::string buffer;
};

struct Interpretation {
  std::map<std::string, Matrix> outputs;  // by buffer name
  tile::Counts counts;
};

// [rows, columns] with the first dimension of the buffer as rows. The values are copied and rounded
// to the buffer's dtype; `in_place`: they are rounded and dense already, and are read where they
// lie, which saves large weights a copy per run. Such an input cannot be written.
struct Input {
  ConstMatrixView values;
  bool in_place = false;

  Input(ConstMatrixView view) : values(view) {}  // NOLINT: a view is an input
  Input(ConstMatrixView view, bool read_in_place) : values(view), in_place(read_in_place) {}
};
using Inputs = std::map<std::string, Input>;  // by buffer name

// When the program is at fault, `fault` (if given) says how, and the error's message says it in
// words.
Result<Interpretation> interpret(const tile::Program& program, const Inputs& inputs,
                                 Fault* fault = nullptr);

}  // namespace neuronmm::simulator
