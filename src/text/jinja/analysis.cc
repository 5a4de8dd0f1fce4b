#include "text/jinja/analysis.h"

#include <algorithm>
#include <set>
#include <utility>

#include "text/jinja/children.h"
#include "text/jinja/runtime.h"
#include "text/jinja/symbols.h"

namespace neuronmm::text::jinja {
namespace {

// Finds which of these names a body loads before it assigns them.
class SpecialNames {
 public:
  explicit SpecialNames(std::set<std::string> names) : names_(std::move(names)) {}

  bool found(const std::string& name) const { return found_.contains(name); }

  void visit(const Statements& statements) {
    for (const auto& statement : statements)
      std::visit([this](const auto& node) { visit(node); }, statement->node);
  }

 private:
  void store(const std::string& name) { names_.erase(name); }

  void visit(const Expression& expression) {
    if (const auto* name = std::get_if<Name>(&expression.node); name && names_.contains(name->name))
      found_.insert(name->name);
    for_each_child(expression, [this](const Expression& child) { visit(child); });
  }
  void visit(const ExpressionPtr& expression) {
    if (expression != nullptr) visit(*expression);
  }
  void visit(const Target& target) {
    if (const auto* name = std::get_if<Name>(&target.to)) store(name->name);
    if (const auto* parts = std::get_if<std::vector<Target>>(&target.to))
      for (const Target& part : *parts) visit(part);
  }
  void visit(const MacroBody& macro) {
    for (const Name& parameter : macro.parameters) store(parameter.name);
    for (const ExpressionPtr& value : macro.defaults) visit(value);
    visit(macro.body);
  }
  void visit(const Data&) {}
  void visit(const Break&) {}
  void visit(const Continue&) {}
  void visit(const Output& node) {
    for (const ExpressionPtr& value : node.values) visit(value);
  }
  void visit(const Assign& node) { visit(node.target), visit(node.value); }
  void visit(const AssignBlock& node) { visit(node.target), visit(node.filter), visit(node.body); }
  void visit(const For& node) {
    visit(node.target), visit(node.items), visit(node.body), visit(node.otherwise);
    visit(node.test);
  }
  void visit(const If& node) {
    for (const auto& [test, body] : node.branches) visit(test), visit(body);
    visit(node.otherwise);
  }
  void visit(const Macro& node) { visit(node.body); }
  void visit(const CallBlock& node) { visit(node.call), visit(node.body); }
  void visit(const Generation& node) { visit(node.body); }
  void visit(const FilterBlock& node) { visit(node.body), visit(node.filter); }
  void visit(const With& node) {
    for (const auto& [target, value] : node.variables) visit(target);
    for (const auto& [target, value] : node.variables) visit(value);
    visit(node.body);
  }

  std::set<std::string> names_, found_;
};

// The surroundings of a statement. `in_branch` is true inside a branch of an `if`, where Jinja
// reports unknown filters and tests only when they run.
struct Context {
  const Symbols& symbols;
  bool in_loop = false;
  bool in_for = false;
  bool in_branch = false;
};

class Analyzer {
 public:
  Status visit(const Statements& statements, const Context& context) {
    for (const auto& statement : statements) {
      position_ = statement->position;
      NMM_TRY(std::visit([&](auto& node) { return visit(node, context); }, statement->node));
    }
    return {};
  }

 private:
  Error error(const SourcePosition& position, std::string_view message) const {
    return fail("{}:{}: {}", position.line, position.column, message);
  }

  Status visit(ExpressionPtr& expression, const Context& context) {
    return expression == nullptr ? Status() : visit(*expression, context);
  }

  Status visit(Expression& expression, const Context& outside) {
    Context context = outside;
    if (auto* name = std::get_if<Name>(&expression.node))
      name->address = context.symbols.find(name->name);
    if (const auto* filter = std::get_if<Filter>(&expression.node);
        filter != nullptr && !context.in_branch && find_filter(filter->name) == nullptr)
      return error(expression.position, "no filter named '" + filter->name + "'");
    if (const auto* test = std::get_if<Test>(&expression.node);
        test != nullptr && !context.in_branch && find_test(test->name) == nullptr)
      return error(expression.position, "no test named '" + test->name + "'");
    context.in_branch = context.in_branch || std::holds_alternative<Conditional>(expression.node);
    Status status;
    for_each_child(expression, [&](Expression& child) {
      if (status.ok()) status = visit(child, context);
    });
    return status;
  }

  Status visit(Target& target, const Context& context) {
    if (auto* name = std::get_if<Name>(&target.to)) {
      if (context.in_for && name->name == "loop")
        return error(target.position, "cannot assign to the special name 'loop' in a for-loop");
      name->address = context.symbols.find(name->name);
    } else if (auto* attribute = std::get_if<Target::Attribute>(&target.to)) {
      attribute->object.address = context.symbols.find(attribute->object.name);
    } else {
      for (Target& part : std::get<std::vector<Target>>(target.to)) {
        NMM_TRY(visit(part, context));
      }
    }
    return {};
  }

  // Visits a body that has a scope of its own.
  Status visit_scope(Statements& body, const Symbols& symbols, Scope& scope, const Context& outside,
                     bool in_loop) {
    scope = symbols.scope();
    return visit(body, {symbols, in_loop, outside.in_for, false});
  }

  Status visit(Data&, const Context&) { return {}; }

  Status visit(Output& node, const Context& context) {
    for (ExpressionPtr& value : node.values) {
      NMM_TRY(visit(value, context));
    }
    return {};
  }

  Status visit(Assign& node, const Context& context) {
    NMM_TRY(visit(node.target, context));
    return visit(node.value, context);
  }

  Status visit(AssignBlock& node, const Context& context) {
    Symbols inner(&context.symbols);
    inner.visit(node.body);
    inner.visit(*node.filter);
    NMM_TRY(visit_scope(node.body, inner, node.scope, context, context.in_loop));
    NMM_TRY(visit(node.filter, {inner, false, context.in_for, false}));
    return visit(node.target, context);
  }

  Status visit(FilterBlock& node, const Context& context) {
    Symbols inner(&context.symbols);
    inner.visit(node.body);
    inner.visit(*node.filter);
    NMM_TRY(visit_scope(node.body, inner, node.scope, context, context.in_loop));
    return visit(node.filter, {inner, false, context.in_for, false});
  }

  Status visit(With& node, const Context& context) {
    Symbols inner(&context.symbols);
    for (const auto& [target, value] : node.variables) inner.visit(target, true);
    inner.visit(node.body);
    for (auto& [target, value] : node.variables) {
      NMM_TRY(visit(value, context));
      NMM_TRY(visit(target, {inner, false, context.in_for, false}));
    }
    return visit_scope(node.body, inner, node.scope, context, context.in_loop);
  }

  Status visit(For& node, const Context& context) {
    const Context in_for{context.symbols, context.in_loop, true, context.in_branch};
    NMM_TRY(visit(node.items, in_for));
    Symbols body(&context.symbols), test(&context.symbols), otherwise(&context.symbols);
    SpecialNames special({"loop"});
    special.visit(node.body);
    const bool uses_loop = node.recursive || special.found("loop");
    if (uses_loop) body.add_parameter("loop");
    body.visit(node.target, true);
    body.visit(node.body);
    otherwise.visit(node.otherwise);
    test.visit(node.target, true);
    if (node.test != nullptr) test.visit(*node.test);
    if (node.test != nullptr) {
      node.test_scope = test.scope();
      node.test_target = node.target;
      NMM_TRY(visit(node.test_target, {test, false, true, false}));
      NMM_TRY(visit(node.test, {test, false, true, false}));
    }
    NMM_TRY(visit(node.target, {body, false, true, false}));
    if (uses_loop) node.loop = body.find("loop");
    NMM_TRY(visit_scope(node.body, body, node.scope, in_for, true));
    return visit_scope(node.otherwise, otherwise, node.otherwise_scope, in_for,
                       context.in_loop && !node.recursive);
  }

  Status visit(If& node, const Context& outside) {
    const Context context{outside.symbols, outside.in_loop, outside.in_for, true};
    for (auto& [test, body] : node.branches) {
      NMM_TRY(visit(test, context));
      NMM_TRY(visit(body, context));
    }
    return visit(node.otherwise, context);
  }

  Status visit_macro(MacroBody& macro, const Context& context) {
    const auto has_parameter = [&](std::string_view name) {
      return std::ranges::find(macro.parameters, name, &Name::name) != macro.parameters.end();
    };
    Symbols inner(&context.symbols);
    for (const Name& parameter : macro.parameters) inner.add_parameter(parameter.name);
    SpecialNames special({"caller", "kwargs", "varargs"});
    special.visit(macro.body);
    macro.explicit_caller = has_parameter("caller");
    for (const char* name : {"caller", "kwargs", "varargs"}) {
      if (special.found(name) && !has_parameter(name)) inner.add_parameter(name);
    }
    for (const ExpressionPtr& value : macro.defaults) inner.visit(*value);
    inner.visit(macro.body);
    for (Name& parameter : macro.parameters) parameter.address = inner.find(parameter.name);
    const auto slot = [&](const char* name) {
      return special.found(name) && !has_parameter(name) ? inner.slot(name) : std::nullopt;
    };
    macro.caller = slot("caller");
    macro.kwargs = slot("kwargs");
    macro.varargs = slot("varargs");
    for (ExpressionPtr& value : macro.defaults) {
      NMM_TRY(visit(value, {inner, false, context.in_for, false}));
    }
    return visit_scope(macro.body, inner, macro.scope, context, false);
  }

  Status visit(Macro& node, const Context& context) {
    node.name.address = context.symbols.find(node.name.name);
    return visit_macro(node.body, context);
  }

  Status visit(CallBlock& node, const Context& context) {
    NMM_TRY(visit_macro(node.body, context));
    return visit(node.call, context);
  }

  Status visit(Generation& node, const Context& context) { return visit_macro(node.body, context); }

  Status visit(Break&, const Context& context) { return check_loop("break", context); }
  Status visit(Continue&, const Context& context) { return check_loop("continue", context); }
  Status check_loop(std::string_view tag, const Context& context) const {
    if (!context.in_loop) return error(position_, fmt::format("'{}' outside of a loop", tag));
    return {};
  }

  SourcePosition position_;
};

}  // namespace

Result<Scope> analyze(Statements& statements) {
  Symbols root(nullptr);
  root.visit(statements);
  NMM_TRY(Analyzer().visit(statements, {root}));
  return root.scope();
}

}  // namespace neuronmm::text::jinja
