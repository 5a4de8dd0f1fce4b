#include "trainium/kernels/formula.h"

#include <utility>

namespace neuronmm::kernels {

using Operation = Formula::Operation;
using StoredAs = Formula::StoredAs;

namespace {

// A braced initializer list would copy the formula with everything in it.
std::vector<Formula> list(Formula a) {
  std::vector<Formula> all;
  all.push_back(std::move(a));
  return all;
}

}  // namespace

Formula operand(std::string_view name) {
  return {.operation = Operation::kOperand, .operand = std::string(name)};
}

Formula product(Formula left, std::string_view weight, std::string_view block, StoredAs stored_as) {
  return {.operation = Operation::kProduct,
          .operand = std::string(weight),
          .block = std::string(block),
          .stored_as = stored_as,
          .inputs = list(std::move(left))};
}

Formula product_added_to(Formula start, Formula left, std::string_view weight,
                         std::string_view block, StoredAs stored_as) {
  Formula formula = product(std::move(left), weight, block, stored_as);
  formula.inputs.push_back(std::move(start));
  return formula;
}

Formula with_product_appended(Formula left, std::string_view weight, std::string_view block,
                              StoredAs stored_as) {
  Formula formula = product(std::move(left), weight, block, stored_as);
  formula.operation = Operation::kAppended;
  return formula;
}

Formula named(Formula formula, std::string_view name) {
  formula.name = name;
  return formula;
}

Formula first_columns(Formula input, char count) {
  return {.operation = Operation::kFirstColumns,
          .first_columns = count,
          .inputs = list(std::move(input))};
}

Formula other_columns(Formula input, char count) {
  return {.operation = Operation::kOtherColumns,
          .first_columns = count,
          .inputs = list(std::move(input))};
}

Formula silu(Formula input, StoredAs stored_as) {
  return {.operation = Operation::kSilu, .stored_as = stored_as, .inputs = list(std::move(input))};
}

Formula times(Formula a, Formula b, StoredAs stored_as) {
  Formula formula{
      .operation = Operation::kTimes, .stored_as = stored_as, .inputs = list(std::move(a))};
  formula.inputs.push_back(std::move(b));
  return formula;
}

// The strip is kept in the dtype of the operands, because it is an operand of the second product.
Formula chain(Formula left, const LowRankPair& pair, StoredAs stored_as) {
  return product(product(std::move(left), pair.u, pair.u_block), pair.v, pair.v_block, stored_as);
}

// The activation is written with the precision of sums, and the product with that of an operand.
Formula gated(Formula gate, Formula up, StoredAs activated) {
  return times(silu(std::move(gate), activated), std::move(up));
}

Formula sum_of_experts(Formula expert, std::string_view experts, std::string_view shares) {
  return {.operation = Operation::kExperts,
          .operand = std::string(shares),
          .experts = std::string(experts),
          .inputs = list(std::move(expert))};
}

}  // namespace neuronmm::kernels
