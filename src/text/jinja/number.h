#pragma once
// Python's numbers in decimal: repr(), the presentation types of format(), int() and float().

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace neuronmm::text::jinja {

// repr() of a float: the shortest digits that give the number back; 1e+16 and above, and below
// 1e-4, have an exponent.
std::string float_representation(double value);

// "%.*f", "%.*e" and "%.*g" as Python writes them ("%.3g" % 1e5 is "1e+05", '#': keep the point).
std::string format_float(double value, char type, int precision, bool alternate = false);

// An integer in base 2, 8, 10 or 16, without prefix.
std::string format_integer(uint64_t value, int base, bool upper = false);

// int(text, base) and float(text); nothing where Python has a ValueError. An integer of more than
// 64 bits is an error, which Python has not.
Result<std::optional<int64_t>> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

// int(value) of a float: towards zero. An error for what is no number or has more than 64 bits.
Result<int64_t> truncate(double value);

// round(value, digits)
Result<Value> round_number(const Value& value, int64_t digits);

Error integer_overflow();

}  // namespace neuronmm::text::jinja
