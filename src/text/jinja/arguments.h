#pragma once
// Arguments by the names of a function's parameters.

#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// By the position of their parameters; nullptr: not given.
using Bound = std::vector<const Value*>;

// The first `required` must be given. A parameter named "" takes its argument by position only.
// Errors as Python's TypeErrors: missing, too many, unknown or given twice. What is bound points
// into `arguments`.
Result<Bound> bind(std::string_view function, const Arguments& arguments,
                   std::initializer_list<std::string_view> parameters, size_t required);

// The value of an argument, or what it is when not given. An error for another type.
Result<int64_t> integer_argument(std::string_view function, const Value* value, int64_t otherwise);
Result<const Text*> text_argument(std::string_view function, const Value* value,
                                  const Text* otherwise = nullptr);
inline bool truth_argument(const Value* value) { return value != nullptr && truth(*value); }

}  // namespace neuronmm::text::jinja
