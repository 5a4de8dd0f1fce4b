#pragma once
// Which names a scope has, as Jinja's compiler finds them: a name that a scope assigns anywhere is
// its own from the start, with the value of outside until then.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "text/jinja/ast.h"

namespace neuronmm::text::jinja {

class Symbols {
 public:
  explicit Symbols(const Symbols* outer) : outer_(outer) {}

  void load(const std::string& name);
  void store(const std::string& name);
  void parameter(const std::string& name);
  // The symbols after one of these ways was taken, each begun as a copy of this.
  void join(const std::vector<Symbols>& ways);

  void visit(const Statements& statements);
  void visit(const Statement& statement);
  void visit(const Expression& expression);  // loads all its names
  void visit(const Target& target, bool as_parameters = false);

  // When everything in the scope was seen: the places of its variables.
  Scope scope() const;
  // Of a name that was seen.
  VariablePlace find(const std::string& name) const;
  std::optional<size_t> slot(const std::string& name) const;

 private:
  bool knows(const std::string& name) const;
  bool outer_knows(const std::string& name) const {
    return outer_ != nullptr && outer_->knows(name);
  }
  void visit_if(const If& chain, size_t first);

  const Symbols* outer_;
  std::map<std::string, Scope::Variable::Start> starts_;
  std::set<std::string> stores_;
};

}  // namespace neuronmm::text::jinja
