#pragma once
// The syntax tree of a template. The parser builds it, analysis.h sets the addresses of variables,
// and the Evaluator runs it.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/value.h"

namespace neuronmm::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
using Expressions = std::vector<ExpressionPtr>;

// The address of a variable: a number of scopes outwards, and a slot in that scope. analysis.h sets
// it.
struct VariableAddress {
  int scopes_out = 0;
  size_t slot = 0;
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
  VariableAddress address;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object, key;
};
struct Slice {
  // `start`, `stop` and `step` may be absent.
  ExpressionPtr object, start, stop, step;
};
struct CallArguments {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *args and **kwargs; both may be absent.
};
struct Call {
  ExpressionPtr function;
  CallArguments arguments;
};
struct Filter {
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};
struct Test {
  ExpressionPtr input;
  std::string name;
  CallArguments arguments;
};
// The text that the block around a filter has written: {% filter upper %}, {% set x | trim %}.
struct CapturedOutput {};
struct Not {
  ExpressionPtr operand;
};
struct Sign {
  bool negative;
  ExpressionPtr operand;
};
enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary {
  Arithmetic operation;
  ExpressionPtr left, right;
};
struct Logical {
  bool is_and;
  ExpressionPtr left, right;
};
struct Compare {  // A chain of comparisons, such as a < b <= c.
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> operands;
};
struct Conditional {
  ExpressionPtr test, then, otherwise;  // `otherwise` may be absent.
};
struct Concatenation {
  Expressions parts;
};
struct ListLiteral {
  Expressions items;
  bool is_tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

struct Expression {
  std::variant<Constant, Name, Attribute, Item, Slice, Call, Filter, Test, CapturedOutput, Not,
               Sign, Binary, Logical, Compare, Conditional, Concatenation, ListLiteral, DictLiteral>
      node;
  SourcePosition position;
  // The number of expressions that are nested in each other.
  int depth = 1;
};

struct Statement;
using Statements = std::vector<std::unique_ptr<Statement>>;

// The variables of a scope, and the values that they have when the scope is entered.
struct Scope {
  struct Variable {
    enum class Start {
      // The code that enters the scope assigns the value.
      kParameter,
      // The value that the template was given under this name, or a global function.
      kContext,
      // The value of the variable of this name in an outer scope.
      kOuter,
      kUnset,
    };
    std::string name;
    Start start;
    VariableAddress outer;
  };
  std::vector<Variable> variables;  // The variables by slot.
};

// The left side of an assignment, or the variables of a `for`.
struct Target {
  // An attribute of a namespace.
  struct Attribute {
    Name object;
    std::string attribute;
  };
  std::variant<Name, Attribute, std::vector<Target>> to;
  SourcePosition position;
};

struct Data {
  TextPtr text;
};
struct Output {
  Expressions values;
};
struct Assign {
  Target target;
  ExpressionPtr value;
};
struct AssignBlock {
  Target target;
  // A filter whose innermost input is CapturedOutput.
  ExpressionPtr filter;
  Statements body;
  Scope scope;
};
struct For {
  // Two copies of the names, with addresses in `scope` and in `test_scope`.
  Target target, test_target;
  ExpressionPtr items, test;  // `test` may be absent.
  Statements body, otherwise;
  bool recursive = false;
  Scope scope, test_scope, otherwise_scope;
  // The slot of `loop`, if the body uses it.
  std::optional<VariableAddress> loop;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Statements>> branches;
  Statements otherwise;
};
struct MacroBody {
  std::vector<Name> parameters;
  Expressions defaults;  // The default values of the last parameters.
  Statements body;
  Scope scope;
  // The slots of the special names of macros that the body uses.
  std::optional<size_t> caller, kwargs, varargs;
  bool explicit_caller = false;
};
struct Macro {
  Name name;
  MacroBody body;
};
struct CallBlock {
  ExpressionPtr call;
  MacroBody body;
};
struct Generation {  // {% generation %} marks what the assistant said, for training.
  MacroBody body;
};
struct FilterBlock {
  ExpressionPtr filter;
  Statements body;
  Scope scope;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Statements body;
  Scope scope;
};
struct Break {};
struct Continue {};

struct Statement {
  std::variant<Data, Output, Assign, AssignBlock, For, If, Macro, CallBlock, Generation,
               FilterBlock, With, Break, Continue>
      node;
  SourcePosition position;
};

}  // namespace neuronmm::text::jinja
