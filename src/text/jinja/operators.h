#pragma once
// Python's arithmetic on the values of templates.

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace neuronmm::text::jinja {

// Integers have 64 bits: what Python would make longer is an error.
Result<Value> arithmetic(Runtime& runtime, Arithmetic operation, const Value& a, const Value& b);
Result<Value> with_sign(bool negative, const Value& value);

// value[start:stop:step]; null: absent.
Result<Value> slice(Runtime& runtime, const Value& value, const Value* start, const Value* stop,
                    const Value* step);

// `format % arguments` of a string.
Result<Value> format_percent(Runtime& runtime, const Text& format, const Value& arguments);

// "<" as "&lt;" and so on, unless it is markup already.
Result<TextPtr> escape_markup(Runtime& runtime, const Value& value);

}  // namespace neuronmm::text::jinja
