#pragma once
// What a kernel computes, as data: an expression over its operands with tokens as rows, and what
// each result on the way is rounded to. From it src/trainium/reference derives the exact values, a
// bound on the rounding errors, the same in Python, and how far off a device may be.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::kernels {

struct Formula {
  // kFirst, kRest: the first columns of a matrix, and those behind them. kExtended: a matrix and,
  // beside it, its product with a weight.
  enum class Operation { kOperand, kProduct, kSilu, kTimes, kFirst, kRest, kExtended };
  // What the result is rounded to before something else reads it: the operands' dtype, the dtype
  // of sums (KernelOptions), or nothing coarser than the fp32 of PSUM.
  enum class Kept { kAsOperands, kAsSums, kInPsum };

  Operation operation = Operation::kOperand;
  std::string operand = {};  // kOperand: which one; a product: the weight, the right factor
  char columns = 0;          // kFirst, kRest: how many are first: the letter of a dimension
  // A product: the tiling parameter that says how many tiles of 128 of the contraction are summed
  // in PSUM, after which the sums are rounded; empty: all of them.
  std::string block = {};
  Kept kept = Kept::kAsOperands;
  // What it is computed from. A product: its left factor and, where there is one, what the sums
  // start from in place of zero.
  std::vector<Formula> of = {};
  std::string name = {};  // of what several parts of a formula share, the same in all: Python text
};

// An operand that holds tokens: X.
Formula operand(std::string_view name);
Formula product(Formula left, std::string_view weight, std::string_view block = "",
                Formula::Kept kept = Formula::Kept::kAsOperands);
// start + left·weight: each sum begins at an element of `start`.
Formula product_onto(Formula start, Formula left, std::string_view weight,
                     std::string_view block = "", Formula::Kept kept = Formula::Kept::kAsOperands);
// [left, left·weight]: the columns of `left` are the first of the result.
Formula extended(Formula left, std::string_view weight, std::string_view block = "",
                 Formula::Kept kept = Formula::Kept::kAsOperands);
Formula named(Formula of, std::string_view name);
Formula first(Formula of, char columns);
Formula rest(Formula of, char columns);
Formula silu(Formula of, Formula::Kept kept = Formula::Kept::kAsOperands);
Formula times(Formula a, Formula b, Formula::Kept kept = Formula::Kept::kAsOperands);

// Two products, of a low-rank pair: left·U·V. The blocks are those of both contractions.
struct Pair {
  std::string_view u, v, u_block, v_block;
};
Formula chain(Formula left, const Pair& pair, Formula::Kept kept = Formula::Kept::kAsOperands);
// SwiGLU: silu(gate) * up.
Formula gated(Formula gate, Formula up);

}  // namespace neuronmm::kernels
