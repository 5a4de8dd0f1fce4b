#pragma once
// The state of one rendering. Template::render makes a Runtime, and passes it to everything that
// works on values: filters, tests, methods and operators. The file also declares the functions that
// they share. A function that returns a Result fails where Python raises an exception, and if the
// budget is spent.

#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace neuronmm::text::jinja {

class Namespace;

// The budget, the time and the namespaces of a rendering.
class Runtime {
 public:
  Runtime(const Limits& limits, std::time_t time) : budget(limits), now(time) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Budget budget;
  const std::time_t now;  // The time that strftime_now shows.
  // All namespaces of the rendering. Only namespaces can change, so only they can contain
  // themselves. The destructor empties them, which breaks such cycles.
  std::vector<std::shared_ptr<Namespace>> namespaces;
};

// The arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;

  // Returns a named argument, or null.
  const Value* find(std::string_view name) const;
};

// Return value.name and value[key] as Jinja's sandbox does. The result is undefined if nothing of
// that name exists. The result is also undefined if the sandbox forbids the access (names with
// "__", methods that change a list or a dict).
Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name);
Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key);
// Returns function(arguments). Fails if the value is not callable.
Result<Value> call(Runtime& runtime, const Value& function, const Arguments& arguments);

// Returns str(value).
Result<TextPtr> to_text(Runtime& runtime, const Value& value);
// Append str(value) and repr(value) to a text.
void write_text(Runtime& runtime, const Value& value, TextWriter& out);
void write_representation(Runtime& runtime, const Value& value, TextWriter& out);

// Returns len(value), or nothing where Python has a TypeError.
std::optional<size_t> length_of(const Value& value);

// Return a filter or a test by its name in templates, or null.
using FilterFunction = Result<Value> (*)(Runtime&, const Value& input, const Arguments&);
using TestFunction = Result<bool> (*)(Runtime&, const Value& input, const Arguments&);
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

}  // namespace neuronmm::text::jinja
