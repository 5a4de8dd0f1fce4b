#include "trainium/reference/python.h"

#include <fmt/format.h>

namespace neuronmm::reference {

using kernels::Formula;
using Operation = Formula::Operation;

namespace {

// A formula as Python text with tokens as rows: an operand that lies the other way is transposed
// where it is read.
class Writer {
 public:
  // `transposed`: the operands that have tokens as their columns.
  explicit Writer(std::set<std::string> transposed) : transposed_(std::move(transposed)) {}

  // The first to need a shared part gives it its name: "(t := x @ d)".
  std::string text(const Formula& formula) {
    if (formula.name.empty()) return unnamed(formula);
    if (!names_.insert(formula.name).second) return formula.name;
    return fmt::format("({} := {})", formula.name, unnamed(formula));
  }
  std::set<std::string> functions() const { return functions_; }

 private:
  std::string unnamed(const Formula& formula) {
    switch (formula.operation) {
      case Operation::kOperand:
        return formula.operand + (transposed_.contains(formula.operand) ? ".T" : "");
      case Operation::kProduct: {
        const std::string start = formula.of.size() > 1 ? text(formula.of[1]) + " + " : "";
        return fmt::format("{}{} @ {}", start, left_factor(formula.of[0]), formula.operand);
      }
      case Operation::kExtended:
        functions_.insert("concatenate");
        return fmt::format("concatenate((z := {}, z @ {}), 1)", text(formula.of[0]),
                           formula.operand);
      case Operation::kFirst:
        return fmt::format("{}[:, :{}]", factor(formula.of[0]), formula.columns);
      case Operation::kRest:
        return fmt::format("{}[:, {}:]", factor(formula.of[0]), formula.columns);
      case Operation::kSilu:
        functions_.insert("silu");
        return fmt::format("silu({})", text(formula.of[0]));
      case Operation::kTimes: {
        const std::string left = factor(formula.of[0]);  // first: it may name what both need
        return fmt::format("{} * {}", left, factor(formula.of[1]));
      }
    }
    return "";
  }

  std::string in_brackets(const Formula& formula) { return fmt::format("({})", text(formula)); }
  // a @ b @ c is (a @ b) @ c, and a * b and a + b must be told apart from it.
  std::string left_factor(const Formula& formula) {
    if (!formula.name.empty()) return text(formula);
    const bool sum = formula.operation == Operation::kProduct && formula.of.size() > 1;
    return formula.operation == Operation::kTimes || sum ? in_brackets(formula) : text(formula);
  }
  // Python's * and @ bind alike.
  std::string factor(const Formula& formula) {
    const bool compound =
        formula.operation == Operation::kProduct || formula.operation == Operation::kTimes;
    return compound && formula.name.empty() ? in_brackets(formula) : text(formula);
  }

  std::set<std::string> transposed_, functions_, names_;
};

}  // namespace

// As the operands of this kernel lie; a kernel that writes Yᵀ gets the transpose of the whole.
Python python(const kernels::Kernel& kernel, const kernels::KernelOptions& options) {
  std::set<std::string> transposed;
  for (const kernels::OperandDescription& operand : kernel.operands) {
    if (layout_of(kernel, operand, options).transposed()) transposed.emplace(operand.name);
  }
  Writer writer(transposed);
  const std::string text = writer.text(kernel.computes);
  const bool transpose_all = transposed.contains(std::string(output_of(kernel).name));
  return {transpose_all ? fmt::format("({}).T", text) : text, writer.functions()};
}

Python python_by_rows(const kernels::Kernel& kernel) {
  Writer writer({});
  const std::string text = writer.text(kernel.computes);
  return {text, writer.functions()};
}

}  // namespace neuronmm::reference
