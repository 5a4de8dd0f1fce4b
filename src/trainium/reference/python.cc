#include "trainium/reference/python.h"

#include <fmt/format.h>

namespace neuronmm::reference {

using kernels::Formula;
using Operation = Formula::Operation;

namespace {

// Writes a formula as Python text with tokens as rows. An operand that has tokens as columns is
// transposed where it is read.
class Writer {
 public:
  // `transposed` names the operands that have tokens as columns.
  Writer(const kernels::Kernel& kernel, std::set<std::string> transposed)
      : kernel_(kernel), transposed_(std::move(transposed)) {}

  // The first place that needs a shared part names it: "(t := x @ d)".
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
        const std::string start = formula.inputs.size() > 1 ? text(formula.inputs[1]) + " + " : "";
        return fmt::format("{}{} @ {}", start, left_factor(formula.inputs[0]),
                           weight(formula.operand));
      }
      case Operation::kExperts:
        return fmt::format("sum(s[:, None] * {} for s, e in zip({}.T, map(int, {}[0])))",
                           factor(formula.inputs[0]), formula.operand, formula.experts);
      case Operation::kAppended:
        functions_.insert("concatenate");
        return fmt::format("concatenate((z := {}, z @ {}), 1)", text(formula.inputs[0]),
                           formula.operand);
      case Operation::kFirstColumns:
        return fmt::format("{}[:, :{}]", factor(formula.inputs[0]), formula.first_columns);
      case Operation::kOtherColumns:
        return fmt::format("{}[:, {}:]", factor(formula.inputs[0]), formula.first_columns);
      case Operation::kSilu:
        functions_.insert("silu");
        return fmt::format("silu({})", text(formula.inputs[0]));
      case Operation::kTimes: {
        // The left factor comes first, because it may name a part that both factors need.
        const std::string left = factor(formula.inputs[0]);
        return fmt::format("{} * {}", left, factor(formula.inputs[1]));
      }
    }
    return "";
  }

  // A weight that holds the matrices of all experts is that of the expert e.
  std::string weight(const std::string& name) const {
    const auto* const experts = kernels::find_expert_rows(operand_of(kernel_, name).layout.rows);
    if (experts == nullptr) return name;
    return fmt::format("{0}[e * {1}:e * {1} + {1}]", name, experts->rows);
  }

  std::string in_brackets(const Formula& formula) { return fmt::format("({})", text(formula)); }
  // Python reads a @ b @ c as (a @ b) @ c, so only the forms a * b and a + b need brackets here.
  std::string left_factor(const Formula& formula) {
    if (!formula.name.empty()) return text(formula);
    const bool sum = formula.operation == Operation::kProduct && formula.inputs.size() > 1;
    return formula.operation == Operation::kTimes || sum ? in_brackets(formula) : text(formula);
  }
  // Python's * and @ have the same precedence.
  std::string factor(const Formula& formula) {
    const bool compound =
        formula.operation == Operation::kProduct || formula.operation == Operation::kTimes;
    return compound && formula.name.empty() ? in_brackets(formula) : text(formula);
  }

  const kernels::Kernel& kernel_;
  std::set<std::string> transposed_, functions_, names_;
};

}  // namespace

// Follows the layout of the kernel's operands. A kernel that writes Yᵀ gets the transpose of the
// whole expression.
Python python(const kernels::Kernel& kernel, const kernels::KernelOptions& options) {
  std::set<std::string> transposed;
  for (const kernels::OperandDescription& operand : kernel.operands) {
    if (layout_of(kernel, operand, options).transposed()) transposed.emplace(operand.name);
  }
  Writer writer(kernel, transposed);
  const std::string text = writer.text(kernel.formula);
  const bool transpose_all = transposed.contains(std::string(output_of(kernel).name));
  return {transpose_all ? fmt::format("({}).T", text) : text, writer.functions()};
}

Python python_by_rows(const kernels::Kernel& kernel) {
  Writer writer(kernel, {});
  const std::string text = writer.text(kernel.formula);
  return {text, writer.functions()};
}

}  // namespace neuronmm::reference
