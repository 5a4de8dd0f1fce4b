#include "text/jinja/number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/unicode.h"

namespace neuronmm::text::jinja {
namespace {

std::string_view strip(std::string_view text) {
  while (!text.empty() && is_space(decode(text, 0).value))
    text.remove_prefix(decode(text, 0).length);
  while (!text.empty() && is_space(decode_before(text, text.size()).value))
    text.remove_suffix(decode_before(text, text.size()).length);
  return text;
}

// Replaces the digits of every script by ASCII digits. Other characters stay as they are.
std::string ascii_digits(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    if (c.value >= 0x80 && is_decimal(c.value))
      out += static_cast<char>('0' + decimal_value(c.value));
    else
      out += text.substr(at, c.length);
    at += c.length;
  }
  return out;
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Removes underscores that stand between two digits, as in "1_000". Returns nothing if there is any
// other underscore.
std::optional<std::string> without_underscores(std::string_view digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      out += digits[i];
      continue;
    }
    if (i == 0 || i + 1 == digits.size() || !is_alphanumeric(digits[i - 1]) ||
        !is_alphanumeric(digits[i + 1]))
      return std::nullopt;
  }
  return out;
}

// Removes a prefix such as "0x" if the base is 16 or 0, and returns the base. Returns -1 for digits
// with a leading zero, which Python rejects for base 0.
int64_t take_base(std::string& digits, int64_t base) {
  const auto letter = digits.size() > 1 && digits[0] == '0' ? digits[1] | 0x20 : 0;
  const int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (named != 0 && (base == 0 || base == named)) {
    digits.erase(0, 2);
    if (digits.starts_with('_')) digits.erase(0, 1);
    return named;
  }
  if (base != 0) return base;
  const bool zeros = digits.find_first_not_of("0_") == std::string::npos;
  return digits.starts_with('0') && !zeros ? -1 : 10;
}

}  // namespace

Error integer_overflow() { return fail("an integer of more than 64 bits"); }

std::string float_representation(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  std::string text(buffer.data(), end);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  text.assign(buffer.data(), fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string format_float(double value, char type, int precision, bool alternate) {
  const bool upper = type >= 'A' && type <= 'Z';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (upper ? "INF" : "inf");
  const std::string pattern = std::string(alternate ? "%#.*" : "%.*") + type;
  const int size = std::snprintf(nullptr, 0, pattern.c_str(), precision, value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern.c_str(), precision, value);
  text.pop_back();
  return text;
}

std::string format_integer(uint64_t value, int base, bool upper) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, base).ptr;
  std::string text(buffer.data(), end);
  if (upper)
    std::ranges::transform(text, text.begin(),
                           [](char c) { return c >= 'a' ? static_cast<char>(c - 0x20) : c; });
  return text;
}

Result<std::optional<int64_t>> parse_integer(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return fail("int() base must be >= 2 and <= 36, or 0");
  std::string digits = ascii_digits(strip(text));
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  base = take_base(digits, base);
  const auto plain = without_underscores(digits);
  if (base < 0 || !plain || plain->empty() || !is_alphanumeric(plain->front()))
    return std::optional<int64_t>();
  const std::string signed_digits = (negative ? "-" : "") + *plain;
  int64_t value = 0;
  const char* last = signed_digits.data() + signed_digits.size();
  const auto [end, error] =
      std::from_chars(signed_digits.data(), last, value, static_cast<int>(base));
  if (end != last) return std::optional<int64_t>();
  if (error == std::errc::result_out_of_range) return integer_overflow();
  return std::optional(value);
}

std::optional<double> parse_float(std::string_view text) {
  const auto plain = without_underscores(ascii_digits(strip(text)));
  if (!plain || plain->empty()) return std::nullopt;
  std::string lower;
  for (const char c : *plain) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  const bool has_sign = lower[0] == '+' || lower[0] == '-';
  const std::string_view body = std::string_view(lower).substr(has_sign ? 1 : 0);
  const double sign = lower[0] == '-' ? -1.0 : 1.0;
  if (body == "inf" || body == "infinity") return sign * HUGE_VAL;
  if (body == "nan") return std::nan("");
  if (body.empty() || body.find_first_not_of("0123456789.e+-") != std::string_view::npos ||
      !(body[0] == '.' || (body[0] >= '0' && body[0] <= '9')))
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  if (*end != '\0') return std::nullopt;
  return value;
}

Result<int64_t> truncate(double value) {
  if (std::isnan(value)) return fail("cannot convert float NaN to integer");
  if (std::isinf(value)) return fail("cannot convert float infinity to integer");
  if (!(value > -0x1p63 && value < 0x1p63)) return integer_overflow();
  return static_cast<int64_t>(value);
}

Result<Value> round_number(const Value& value, int64_t digits) {
  if (const auto integer = value.integer()) {
    if (digits >= 0) return Value(*integer);
    if (digits < -18) {
      // From 5e18 on, a number rounds to 1e19, which has more than 64 bits. The half rounds to 0.
      constexpr int64_t kHalf = 5'000'000'000'000'000'000;
      if (digits == -19 && (*integer > kHalf || *integer < -kHalf)) return integer_overflow();
      return Value(int64_t{0});
    }
    int64_t unit = 1;
    for (int64_t i = 0; i < -digits; ++i) unit *= 10;
    // Rounds to the nearest multiple of the unit, and halves to the even multiple.
    int64_t quotient = *integer / unit, remainder = *integer % unit;
    const bool away_from_zero =
        std::abs(remainder) > unit / 2 || (std::abs(remainder) == unit / 2 && quotient % 2 != 0);
    if (away_from_zero) quotient += remainder < 0 ? -1 : 1;
    int64_t rounded = 0;
    if (__builtin_mul_overflow(quotient, unit, &rounded)) return integer_overflow();
    return Value(rounded);
  }
  const double real = *value.real();
  if (!std::isfinite(real) || digits > 330) return value;
  if (digits < -330) return Value(std::copysign(0.0, real));
  // The function printf rounds the exact decimal value, as Python does.
  if (digits >= 0)
    return Value(std::strtod(format_float(real, 'f', static_cast<int>(digits)).c_str(), nullptr));
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return Value(std::nearbyint(real / unit) * unit);
}

}  // namespace neuronmm::text::jinja
