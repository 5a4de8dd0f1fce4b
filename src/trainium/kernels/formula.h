#pragma once
// What a kernel computes, as data: an expression over its operands with tokens as rows, and what
// each result on the way is rounded to. From it src/trainium/reference derives the exact values, a
// bound on the rounding errors, the same in Python, and how far off a device may be.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::kernels {

struct Formula {
  enum class Operation { kOperand, kProduct, kSilu, kTimes };
  // What the result is rounded to before something else reads it: the operands' dtype, the dtype
  // of sums (KernelOptions), or nothing coarser than the fp32 of PSUM.
  enum class Kept { kAsOperands, kAsSums, kInPsum };

  Operation operation = Operation::kOperand;
  std::string operand = {};  // kOperand: which one; kProduct: the weight, the right factor
  // kProduct: the tiling parameter that says how many tiles of 128 of the contraction are summed in
  // PSUM, after which the sums are rounded; empty: all of them.
  std::string block = {};
  Kept kept = Kept::kAsOperands;
  std::vector<Formula> of = {};  // what it is computed from; a product: its left factor
};

// An operand that holds tokens: X.
Formula operand(std::string_view name);
Formula product(Formula left, std::string_view weight, std::string_view block = "",
                Formula::Kept kept = Formula::Kept::kAsOperands);
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
