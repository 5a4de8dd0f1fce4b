#pragma once
// A template as a tree.

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

// Where a variable lies: so many scopes out, in this slot. Set by analysis.h.
struct VariablePlace {
  int scopes_out = 0;
  size_t slot = 0;
};

struct Constant {
  Value value;
};
struct Name {
  std::string name;
  VariablePlace place;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Item {
  ExpressionPtr object, key;
};
struct Slice {
  ExpressionPtr object, start, stop, step;  // the last three may be absent
};
struct CallArguments {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *args and **kwargs, or absent
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
// What the block around a filter has written: {% filter upper %}, {% set x | trim %}.
struct Captured {};
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
struct Compare {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr test, then, otherwise;  // the last may be absent
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
  std::variant<Constant, Name, Attribute, Item, Slice, Call, Filter, Test, Captured, Not, Sign,
               Binary, Logical, Compare, Conditional, Concatenation, ListLiteral, DictLiteral>
      node;
  Place place;
  int depth = 1;  // how many expressions lie in each other
};

struct Statement;
using Statements = std::vector<std::unique_ptr<Statement>>;

// What the variables of a scope are when it is entered.
struct Scope {
  struct Variable {
    enum class Start {
      kParameter,  // assigned by whoever enters
      kContext,    // what the caller of the template gave by this name, or a global
      kOuter,      // the value of the variable of this name outside
      kUnset,
    };
    std::string name;
    Start start;
    VariablePlace outer;
  };
  std::vector<Variable> variables;  // by slot
};

// What an assignment or a `for` assigns to.
struct Target {
  struct Attribute {  // of a namespace
    Name object;
    std::string attribute;
  };
  std::variant<Name, Attribute, std::vector<Target>> to;
  Place place;
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
  ExpressionPtr filter;  // of Captured
  Statements body;
  Scope scope;
};
struct For {
  Target target, test_target;  // the same names, in `scope` and in `test_scope`
  ExpressionPtr items, test;   // the latter may be absent
  Statements body, otherwise;
  bool recursive = false;
  Scope scope, test_scope, otherwise_scope;
  std::optional<VariablePlace> loop;  // the slot of `loop` where the body uses it
};
struct If {
  std::vector<std::pair<ExpressionPtr, Statements>> branches;
  Statements otherwise;
};
struct MacroBody {
  std::vector<Name> parameters;
  Expressions defaults;  // of the last parameters
  Statements body;
  Scope scope;
  // The slots of the names that are special in macros, where the body uses them.
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
struct Generation {  // {% generation %}: what the assistant said, for training
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
  Place place;
};

}  // namespace neuronmm::text::jinja
