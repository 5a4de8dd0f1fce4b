#pragma once
// The objects of a template that are not data: methods, functions and namespaces. attributes.cc
// makes methods, and execution.cc makes functions and assigns to namespaces. A call fails where
// Python raises an exception.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// A method of str, list, tuple or dict. `self` is a value of that type.
using Method = Result<Value> (*)(Runtime&, const Value& self, const Arguments&);
// Return a method of the type by its name, or null. Methods that change a list or a dict are
// missing, because the sandbox forbids them. Text methods are in text_methods.cc, the others in
// list_methods.cc.
Method find_text_method(std::string_view name);
Method find_list_method(std::string_view name);
Method find_tuple_method(std::string_view name);
Method find_dict_method(std::string_view name);

// A method with its object, such as "abc".upper.
class BoundMethod final : public Object {
 public:
  BoundMethod(Value self, Method method) : self_(std::move(self)), method_(method) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override {
    return method_(runtime, self_, arguments);
  }
  int nesting() const override { return 1 + self_.nesting(); }

 private:
  Value self_;
  Method method_;
};

// A function that every template has.
using Function = Result<Value> (*)(Runtime&, const Arguments&);
// Returns a global function by its name, such as range, namespace or raise_exception, or null. The
// functions lipsum, cycler and joiner of Jinja exist, but every call of them fails.
Function find_global(std::string_view name);

// A global function as a value of a template.
class GlobalFunction final : public Object {
 public:
  explicit GlobalFunction(Function function) : function_(function) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Result<Value> call(Runtime& runtime, const Arguments& arguments) override {
    return function_(runtime, arguments);
  }

 private:
  Function function_;
};

// An object whose attributes a template can set: {% set ns.found = true %}. No other value can
// change. A namespace can therefore contain itself. The global function `namespace` adds every new
// one to Runtime::namespaces, and the Runtime clears all of them at its end.
class Namespace final : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;
  // Sets an attribute. Fails for names that begin with an underscore.
  Status set(std::string_view name, Value value);
  // Removes all attributes, which breaks cycles of references.
  void clear() { values_.clear(); }

 private:
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace neuronmm::text::jinja
