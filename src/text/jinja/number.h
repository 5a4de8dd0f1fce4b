#pragma once
// Reads and writes numbers as Python does: repr(), the types of format(), int(), float() and
// round(). The lexer, the operators and the filters use it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace neuronmm::text::jinja {

// Returns repr() of a float, the shortest digits that give the same number. Numbers from 1e+16 on
// and below 1e-4 have an exponent.
std::string float_representation(double value);

// Formats like Python's "%.*f", "%.*e" and "%.*g": "%.3g" % 1e5 is "1e+05". `type` is the letter.
// With `alternate` (the flag '#'), the decimal point stays.
std::string format_float(double value, char type, int precision, bool alternate = false);

// Returns an integer in base 2, 8, 10 or 16, without a prefix.
std::string format_integer(uint64_t value, int base, bool upper = false);

// Return int(text, base) and float(text). The result is empty where Python has a ValueError. An
// integer of more than 64 bits is an error, unlike in Python.
Result<std::optional<int64_t>> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

// Returns int(value) of a float, which rounds towards zero. NaN, infinity and integers of more than
// 64 bits are errors.
Result<int64_t> truncate(double value);

// Returns round(value, digits) for an integer or a float.
Result<Value> round_number(const Value& value, int64_t digits);

// Returns the error for an integer of more than 64 bits.
Error integer_overflow();

}  // namespace neuronmm::text::jinja
