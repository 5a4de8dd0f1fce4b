#pragma once
// Binds the arguments of a call to the parameters of a C++ function. All filters, tests, methods
// and global functions use it.

#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// The arguments by the position of their parameters; null where none was given.
using BoundArguments = std::vector<const Value*>;

// Binds arguments to `parameters`, of which the first `required` must be given. A parameter named
// "" takes its argument by position only. Missing, unknown, repeated and too many arguments are
// errors, as in Python's TypeError. The result points into `arguments`.
Result<BoundArguments> bind(std::string_view function, const Arguments& arguments,
                            std::initializer_list<std::string_view> parameters, size_t required);

// Return the value of an argument, or `otherwise` if it was not given. Another type is an error.
Result<int64_t> integer_argument(std::string_view function, const Value* value, int64_t otherwise);
Result<const Text*> text_argument(std::string_view function, const Value* value,
                                  const Text* otherwise = nullptr);
inline bool truth_argument(const Value* value) { return value != nullptr && truth(*value); }

}  // namespace neuronmm::text::jinja
