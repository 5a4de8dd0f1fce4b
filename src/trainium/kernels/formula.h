#pragma once
// This file describes what a kernel computes, as data: an expression over its operands with tokens
// as rows, and the dtype that each intermediate result is rounded to. From a formula
// src/trainium/reference derives the exact values, a bound on the rounding errors, the same
// computation in Python, and the tolerance for a device.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::kernels {

// An expression. It owns the expressions that it is computed from.
struct Formula {
  // kFirst and kRest are the first columns of a matrix, and the columns after them. kExtended is a
  // matrix followed by its product with a weight.
  enum class Operation { kOperand, kProduct, kSilu, kTimes, kFirst, kRest, kExtended };
  // The precision of a result when something else reads it: the operands' dtype, the dtype of sums
  // (KernelOptions), or the fp32 of PSUM.
  enum class Kept { kAsOperands, kAsSums, kInPsum };

  Operation operation = Operation::kOperand;
  // kOperand: the operand's name. For a product: the weight, which is the right factor.
  std::string operand = {};
  char columns = 0;  // kFirst, kRest: the number of first columns, as the letter of a dimension.
  // For a product: the tiling parameter that counts the tiles of 128 of the contraction that are
  // summed in PSUM before the sums are rounded. If it is empty, PSUM sums all tiles.
  std::string block = {};
  Kept kept = Kept::kAsOperands;
  // The expressions that the result is computed from. A product has its left factor and optionally
  // the value that its sums start from instead of zero.
  std::vector<Formula> of = {};
  // The name of an expression that occurs in several parts of a formula; Python text computes it
  // once.
  std::string name = {};
};

// Returns an operand that holds tokens, such as X.
Formula operand(std::string_view name);
// Returns left·weight.
Formula product(Formula left, std::string_view weight, std::string_view block = "",
                Formula::Kept kept = Formula::Kept::kAsOperands);
// Returns start + left·weight, where each sum begins at an element of `start`.
Formula product_onto(Formula start, Formula left, std::string_view weight,
                     std::string_view block = "", Formula::Kept kept = Formula::Kept::kAsOperands);
// Returns [left, left·weight]: the columns of `left` come first in the result.
Formula extended(Formula left, std::string_view weight, std::string_view block = "",
                 Formula::Kept kept = Formula::Kept::kAsOperands);
// Returns `of` with a name that all of its uses share.
Formula named(Formula of, std::string_view name);
// Return the first columns of a matrix, and the columns after them. `columns` is the letter of a
// dimension.
Formula first(Formula of, char columns);
Formula rest(Formula of, char columns);
Formula silu(Formula of, Formula::Kept kept = Formula::Kept::kAsOperands);
Formula times(Formula a, Formula b, Formula::Kept kept = Formula::Kept::kAsOperands);

// The weights of a low-rank pair, left·U·V, and the block parameters of the two contractions.
struct Pair {
  std::string_view u, v, u_block, v_block;
};
// Returns left·U·V.
Formula chain(Formula left, const Pair& pair, Formula::Kept kept = Formula::Kept::kAsOperands);
// Returns the SwiGLU product silu(gate) * up.
Formula gated(Formula gate, Formula up);

}  // namespace neuronmm::kernels
