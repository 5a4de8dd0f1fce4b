#pragma once
// The operators of Python on the values of templates. The Evaluator and some filters call them.
// They fail where Python raises an exception, and if the budget is spent. Comparisons are in
// value.h.

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// Returns `a operation b`. Integers have 64 bits, and a longer result is an error.
Result<Value> arithmetic(Runtime& runtime, Arithmetic operation, const Value& a, const Value& b);
// Returns -value or +value.
Result<Value> with_sign(bool negative, const Value& value);

// Returns value[start:stop:step]; a null pointer means that the part is absent.
Result<Value> slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop,
                    const Value* step);

// Returns `format % arguments`.
Result<Value> format_percent(Runtime& runtime, const Text& format, const Value& arguments);

// Returns str(value) with "<" as "&lt;" and so on. A text that is markup already (text.h) stays as
// it is.
Result<TextPtr> escape_markup(Runtime& runtime, const Value& value);

}  // namespace neuronmm::text::jinja
