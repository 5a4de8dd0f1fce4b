#include "serve/output/python_number.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace neuronmm::serve {
namespace {

// Takes the digits from the front of `text`.
std::string take_digits(std::string_view& text) {
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string digits(text.substr(0, count));
  text.remove_prefix(count);
  return digits;
}

// Returns the decimal digits of a whole number such as "1F" with this base.
std::optional<std::string> decimal_digits(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::to_string(value);
}

std::optional<std::string> unsigned_json(std::string_view text) {
  const std::string_view prefix = text.substr(0, 2);
  if (prefix == "0x" || prefix == "0X") return decimal_digits(text.substr(2), 16);
  if (prefix == "0o" || prefix == "0O") return decimal_digits(text.substr(2), 8);
  if (prefix == "0b" || prefix == "0B") return decimal_digits(text.substr(2), 2);
  std::string whole = take_digits(text), fraction, exponent;
  const bool has_point = text.starts_with('.');
  if (has_point) {
    text.remove_prefix(1);
    fraction = take_digits(text);
  }
  if (whole.empty() && fraction.empty()) return std::nullopt;
  if (text.starts_with('e') || text.starts_with('E')) {
    exponent = "e";
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) {
      exponent += text.front();
      text.remove_prefix(1);
    }
    const std::string digits = take_digits(text);
    if (digits.empty()) return std::nullopt;
    exponent += digits;
  }
  if (!text.empty()) return std::nullopt;
  // Python has no such numbers: the word is a code or a date.
  const bool is_zero = whole.find_first_not_of('0') == std::string::npos;
  if (whole.starts_with('0') && !is_zero && !has_point && exponent.empty()) return std::nullopt;
  // In JSON, digits stand on both sides of the point, and no zeros lead.
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  if (whole.empty()) whole = "0";
  if (has_point) whole += "." + (fraction.empty() ? "0" : fraction);
  return whole + exponent;
}

}  // namespace

std::optional<std::string> number_json(std::string_view word) {
  std::string text(word);
  std::erase(text, '_');
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.erase(0, 1);
  auto json = unsigned_json(text);
  if (json && is_negative) json->insert(0, "-");
  return json;
}

}  // namespace neuronmm::serve
