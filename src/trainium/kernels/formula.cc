#include "trainium/kernels/formula.h"

#include <utility>

namespace neuronmm::kernels {

using Operation = Formula::Operation;
using Kept = Formula::Kept;

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

Formula product(Formula left, std::string_view weight, std::string_view block, Kept kept) {
  return {.operation = Operation::kProduct,
          .operand = std::string(weight),
          .block = std::string(block),
          .kept = kept,
          .of = list(std::move(left))};
}

Formula product_onto(Formula start, Formula left, std::string_view weight, std::string_view block,
                     Kept kept) {
  Formula formula = product(std::move(left), weight, block, kept);
  formula.of.push_back(std::move(start));
  return formula;
}

Formula extended(Formula left, std::string_view weight, std::string_view block, Kept kept) {
  Formula formula = product(std::move(left), weight, block, kept);
  formula.operation = Operation::kExtended;
  return formula;
}

Formula named(Formula of, std::string_view name) {
  of.name = name;
  return of;
}

Formula first(Formula of, char columns) {
  return {.operation = Operation::kFirst, .columns = columns, .of = list(std::move(of))};
}

Formula rest(Formula of, char columns) {
  return {.operation = Operation::kRest, .columns = columns, .of = list(std::move(of))};
}

Formula silu(Formula of, Kept kept) {
  return {.operation = Operation::kSilu, .kept = kept, .of = list(std::move(of))};
}

Formula times(Formula a, Formula b, Kept kept) {
  Formula formula{.operation = Operation::kTimes, .kept = kept, .of = list(std::move(a))};
  formula.of.push_back(std::move(b));
  return formula;
}

// The strip is kept in the dtype of the operands, because it is an operand of the second product.
Formula chain(Formula left, const Pair& pair, Kept kept) {
  return product(product(std::move(left), pair.u, pair.u_block), pair.v, pair.v_block, kept);
}

// The activation is written with the precision of sums, and the product with that of an operand.
Formula gated(Formula gate, Formula up) {
  return times(silu(std::move(gate), Kept::kAsSums), std::move(up));
}

}  // namespace neuronmm::kernels
