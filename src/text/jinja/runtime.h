#pragma once
// What the filters, tests, methods and operators of a rendering share.

#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace neuronmm::text::jinja {

class Namespace;

class Runtime {
 public:
  Runtime(const Limits& limits, std::time_t time) : budget(limits), now(time) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget budget;
  const std::time_t now;  // of strftime_now
  // All namespaces of the rendering: they are the only values that change, so the only ones that
  // can hold themselves. Emptied at the end, one by one.
  std::vector<std::shared_ptr<Namespace>> namespaces;
};

// The arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  const Value* find(std::string_view name) const;
};

// value.name and value[key] as the sandbox has them: what does not exist is undefined, and so is
// what it forbids (names with "__", methods that change a list or dict).
Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name);
Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key);
Result<Value> call(Runtime& runtime, const Value& function, const Arguments& arguments);

// str(value) and repr(value).
Result<TextPtr> to_text(Runtime& runtime, const Value& value);
void write_text(Runtime& runtime, const Value& value, TextWriter& out);
void write_representation(Runtime& runtime, const Value& value, TextWriter& out);

// len(value); nothing where Python has a TypeError.
std::optional<size_t> length_of(const Value& value);

// By the names in templates; nullptr: there is none.
using FilterFunction = Result<Value> (*)(Runtime&, const Value& input, const Arguments&);
using TestFunction = Result<bool> (*)(Runtime&, const Value& input, const Arguments&);
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

}  // namespace neuronmm::text::jinja
