#pragma once
// This file writes instructions as statements of either dialect, for the emitter. The parameter
// names of nki.isa differ between instructions, so they are listed here and not in the tile
// program.

#include <string>

#include "trainium/nki/expressions.h"
#include "trainium/nki/python_text.h"
#include "trainium/nki/release.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

std::string_view nl_dtype(DType dtype);  // For example "nl.bfloat16".

// Writes the statements of one program in one dialect.
class Statements {
 public:
  Statements(const tile::Program& program, Expressions& expressions, Dialect dialect)
      : program_(program), e_(expressions), dialect_(dialect) {}

  void write(const tile::Operation& operation, PythonText& text);
  // Returns a declaration such as "psum = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.psum)".
  std::string allocation(tile::BufferId id, bool holds_sums);

 private:
  void load_registers(const tile::Operation& operation, PythonText& text);

  const tile::Program& program_;
  Expressions& e_;
  Dialect dialect_;
};

}  // namespace neuronmm::nki
