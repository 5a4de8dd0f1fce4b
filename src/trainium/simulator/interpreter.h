#pragma once
// Runs a tile program on values, as the hardware would compute them. Operands are read in their
// dtype. PSUM sums in fp32: first the 128 products of a matmul, then tile after tile in the
// program's order. Every write to SBUF and HBM rounds to the buffer's dtype. A newly allocated
// instance of a buffer is empty, whatever its memory held before, and reading an element that was
// not written is a fault. Tests and `neuronmm` check kernels with it.

#include <map>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "trainium/tile/counts.h"
#include "trainium/tile/program.h"

namespace neuronmm::simulator {

// The mistake of a program that failed.
struct Fault {
  enum class Kind { kMalformed, kOutOfBounds, kShapes, kUnwritten };
  Kind kind = Kind::kMalformed;
  std::string instruction;  // The instruction's label.
  std::string buffer;
};

struct Interpretation {
  std::map<std::string, Matrix> outputs;  // Outputs by buffer name.
  tile::Counts counts;
};

// The values of an input, [rows, columns], where rows is the first dimension of the buffer. By
// default the values are copied and rounded to the buffer's dtype. With `in_place` the caller
// promises that the values are rounded and dense; the interpreter reads them in the caller's
// memory, which saves a copy of large weights per run. A program cannot write such an input.
struct Input {
  ConstMatrixView values;
  bool in_place = false;

  Input(ConstMatrixView view) : values(view) {}  // NOLINT: a view is an input
  Input(ConstMatrixView view, bool read_in_place) : values(view), in_place(read_in_place) {}
};
using Inputs = std::map<std::string, Input>;  // Inputs by buffer name.

// Runs the program and returns its outputs. If the program is at fault, `fault` (if given) receives
// the fault, and the error's message describes it.
Result<Interpretation> interpret(const tile::Program& program, const Inputs& inputs,
                                 Fault* fault = nullptr);

}  // namespace neuronmm::simulator
