#pragma once
// Finds the names of a scope as Jinja's compiler does. A name that a scope assigns anywhere belongs
// to the scope from its start. Until the assignment, it has the value from outside. analysis.cc is
// the user.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "text/jinja/ast.h"

namespace neuronmm::text::jinja {

// The names of one scope. Names are loaded and stored in the order of the template.
class Symbols {
 public:
  explicit Symbols(const Symbols* outer) : outer_(outer) {}

  void load(const std::string& name);
  void store(const std::string& name);
  void add_parameter(const std::string& name);
  // Adds the symbols of the branches of an `if`. Each branch began as a copy of this object.
  void merge_branches(const std::vector<Symbols>& branches);

  void visit(const Statements& statements);
  void visit(const Statement& statement);
  void visit(const Expression& expression);  // Loads all names of the expression.
  void visit(const Target& target, bool as_parameters = false);

  // Returns the scope with the addresses of its variables, once everything in it was visited.
  Scope scope() const;
  // Return the address of a name that was visited.
  VariableAddress find(const std::string& name) const;
  std::optional<size_t> slot(const std::string& name) const;

 private:
  bool contains(const std::string& name) const;
  bool outer_contains(const std::string& name) const {
    return outer_ != nullptr && outer_->contains(name);
  }
  void visit_if(const If& chain, size_t first);

  const Symbols* outer_;
  std::map<std::string, Scope::Variable::Start> starts_;
  std::set<std::string> stores_;
};

}  // namespace neuronmm::text::jinja
