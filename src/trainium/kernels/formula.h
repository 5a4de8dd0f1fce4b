#pragma once
// This file describes what a kernel computes, as data: an expression over its operands with tokens
// as rows, and the dtype that each intermediate result is rounded to. From a formula
// src/trainium/reference derives the exact values, a bound on the rounding errors, the same
// computation in Python, and the tolerance for a device.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::kernels {

// An expression, which owns the expressions that it is computed from.
struct Formula {
  // kExperts is the sum over the distinct chosen experts of a mixture: each expert's output times
  // the token's share of it. The weights in its only input are those of the expert.
  // kFirstColumns and kOtherColumns are the first columns of a matrix, and the columns after them.
  // kAppended is a matrix followed by its product with a weight.
  enum class Operation {
    kOperand,
    kProduct,
    kSilu,
    kTimes,
    kFirstColumns,
    kOtherColumns,
    kAppended,
    kExperts
  };
  // The precision of a result when something else reads it: the operands' dtype, the dtype of sums
  // (KernelOptions), or the fp32 of PSUM.
  enum class StoredAs { kOperandDtype, kSumDtype, kPsum };

  Operation operation = Operation::kOperand;
  // kOperand: the operand's name. kExperts: the operand of the shares. For a product: the weight,
  // which is the right factor.
  std::string operand = {};
  // kExperts: the operand of the experts' numbers.
  std::string experts = {};
  // kFirstColumns, kOtherColumns: the number of first columns, as the letter of a dimension.
  char first_columns = 0;
  // For a product: the tiling parameter that counts the tiles of 128 of the contraction that are
  // summed in PSUM before the sums are rounded. If it is empty, PSUM sums all tiles.
  std::string block = {};
  StoredAs stored_as = StoredAs::kOperandDtype;
  // The expressions that the result is computed from. A product has its left factor and optionally
  // the value that its sums start from instead of zero.
  std::vector<Formula> inputs = {};
  // The name of an expression that occurs in several parts of a formula; Python text computes it
  // once.
  std::string name = {};
};

// Returns an operand that holds tokens, such as X.
Formula operand(std::string_view name);
// Returns left·weight.
Formula product(Formula left, std::string_view weight, std::string_view block = "",
                Formula::StoredAs stored_as = Formula::StoredAs::kOperandDtype);
// Returns start + left·weight, where each sum begins at an element of `start`.
Formula product_added_to(Formula start, Formula left, std::string_view weight,
                         std::string_view block = "",
                         Formula::StoredAs stored_as = Formula::StoredAs::kOperandDtype);
// Returns [left, left·weight]: the columns of `left` come first in the result.
Formula with_product_appended(Formula left, std::string_view weight, std::string_view block = "",
                              Formula::StoredAs stored_as = Formula::StoredAs::kOperandDtype);
// Returns `formula` with a name that all of its uses share.
Formula named(Formula formula, std::string_view name);
// Return the first columns of a matrix, and the columns after them. `count` is the letter of a
// dimension.
Formula first_columns(Formula input, char count);
Formula other_columns(Formula input, char count);
Formula silu(Formula input, Formula::StoredAs stored_as = Formula::StoredAs::kOperandDtype);
Formula times(Formula a, Formula b, Formula::StoredAs stored_as = Formula::StoredAs::kOperandDtype);

// The weights of a low-rank pair, left·U·V, and the block parameters of the two contractions.
struct LowRankPair {
  std::string_view u, v, u_block, v_block;
};
// Returns left·U·V.
Formula chain(Formula left, const LowRankPair& pair,
              Formula::StoredAs stored_as = Formula::StoredAs::kOperandDtype);
// Returns the sum over the experts that the operand `experts` numbers, each times its column of the
// operand `shares`. `expert` is the output of one of them.
Formula sum_of_experts(Formula expert, std::string_view experts, std::string_view shares);
// Returns the SwiGLU product silu(gate) * up. `activated` is the precision of silu(gate).
Formula gated(Formula gate, Formula up, Formula::StoredAs activated = Formula::StoredAs::kSumDtype);

}  // namespace neuronmm::kernels
