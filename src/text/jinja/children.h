#pragma once
// Visits the expressions inside an expression. analysis.cc and symbols.cc walk the tree of a
// template with it.

#include <type_traits>
#include <variant>

#include "text/jinja/ast.h"

namespace neuronmm::text::jinja {

// Calls visitor(child) for each expression directly inside `expression`. Parts that are absent are
// left out. The visitor calls for_each_child() again to go deeper.
template <typename Visitor>
void for_each_child(const Expression& expression, const Visitor& visitor) {
  const auto one = [&](const ExpressionPtr& child) {
    if (child != nullptr) visitor(*child);
  };
  const auto all = [&](const Expressions& children) {
    for (const ExpressionPtr& child : children) one(child);
  };
  const auto arguments = [&](const CallArguments& list) {
    all(list.positional);
    for (const auto& [name, value] : list.named) one(value);
    one(list.more_positional);
    one(list.more_named);
  };
  std::visit(
      [&]<typename Node>(const Node& node) {
        if constexpr (std::is_same_v<Node, Attribute>) {
          one(node.object);
        } else if constexpr (std::is_same_v<Node, Item>) {
          one(node.object), one(node.key);
        } else if constexpr (std::is_same_v<Node, Slice>) {
          one(node.object), one(node.start), one(node.stop), one(node.step);
        } else if constexpr (std::is_same_v<Node, Call>) {
          one(node.function), arguments(node.arguments);
        } else if constexpr (std::is_same_v<Node, Filter> || std::is_same_v<Node, Test>) {
          one(node.input), arguments(node.arguments);
        } else if constexpr (std::is_same_v<Node, Not> || std::is_same_v<Node, Sign>) {
          one(node.operand);
        } else if constexpr (std::is_same_v<Node, Binary> || std::is_same_v<Node, Logical>) {
          one(node.left), one(node.right);
        } else if constexpr (std::is_same_v<Node, Compare>) {
          one(node.first);
          for (const auto& [sign, operand] : node.operands) one(operand);
        } else if constexpr (std::is_same_v<Node, Conditional>) {
          one(node.test), one(node.then), one(node.otherwise);
        } else if constexpr (std::is_same_v<Node, Concatenation>) {
          all(node.parts);
        } else if constexpr (std::is_same_v<Node, ListLiteral>) {
          all(node.items);
        } else if constexpr (std::is_same_v<Node, DictLiteral>) {
          for (const auto& [key, value] : node.entries) one(key), one(value);
        }
      },
      expression.node);
}

}  // namespace neuronmm::text::jinja
