#include "text/jinja/arguments.h"

#include <algorithm>

namespace neuronmm::text::jinja {

const Value* Arguments::find(std::string_view name) const {
  const auto found = std::ranges::find(named, name, [](const auto& entry) { return entry.first; });
  return found == named.end() ? nullptr : &found->second;
}

Result<BoundArguments> bind(std::string_view function, const Arguments& arguments,
                            std::initializer_list<std::string_view> parameters, size_t required) {
  if (arguments.positional.size() > parameters.size())
    return fail("{}() takes at most {} arguments, found {}", function, parameters.size(),
                arguments.positional.size());
  BoundArguments bound(parameters.size(), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(parameters, std::string_view(name));
    if (name.empty() || found == parameters.end())
      return fail("{}() got an unexpected keyword argument '{}'", function, name);
    const Value*& slot = bound[static_cast<size_t>(found - parameters.begin())];
    if (slot != nullptr) return fail("{}() got multiple values for argument '{}'", function, name);
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr)
      return fail("{}() expected at least {} arguments, found {}", function, required,
                  arguments.positional.size() + arguments.named.size());
  }
  return bound;
}

Result<int64_t> integer_argument(std::string_view function, const Value* value, int64_t otherwise) {
  if (value == nullptr) return otherwise;
  if (const auto integer = value->integer()) return *integer;
  return fail("{}() expected an integer, found '{}'", function, value->type_name());
}

Result<const Text*> text_argument(std::string_view function, const Value* value,
                                  const Text* otherwise) {
  if (value == nullptr) return otherwise;
  if (value->text() != nullptr) return value->text();
  return fail("{}() expected a string, found '{}'", function, value->type_name());
}

}  // namespace neuronmm::text::jinja
