#include "serve/schema/decimal.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace neuronmm::grammar {
namespace {

bool magnitude_less(const Decimal& a, const Decimal& b) {
  return std::make_tuple(a.whole.size(), std::string_view(a.whole), std::string_view(a.fraction)) <
         std::make_tuple(b.whole.size(), std::string_view(b.whole), std::string_view(b.fraction));
}

std::string shortest_text(const nlohmann::ordered_json& number) {
  if (number.is_number_unsigned()) return fmt::format("{}", number.get<uint64_t>());
  if (number.is_number_integer()) return fmt::format("{}", number.get<int64_t>());
  return fmt::format("{}", number.get<double>());
}

}  // namespace

Decimal Decimal::of(const nlohmann::ordered_json& number) {
  std::string text = shortest_text(number);
  Decimal result;
  result.negative = text.starts_with('-');
  if (result.negative) text.erase(0, 1);
  int64_t exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::atoll(text.c_str() + e + 1);
    text.resize(e);
  }
  int64_t point = static_cast<int64_t>(std::min(text.find('.'), text.size()));
  if (point < std::ssize(text)) text.erase(static_cast<size_t>(point), 1);
  point += exponent;
  if (point <= 0) text.insert(0, static_cast<size_t>(1 - point), '0'), point = 1;
  if (point > std::ssize(text)) text.append(static_cast<size_t>(point) - text.size(), '0');
  result.whole = text.substr(0, static_cast<size_t>(point));
  result.fraction = text.substr(static_cast<size_t>(point));
  result.whole.erase(0, std::min(result.whole.find_first_not_of('0'), result.whole.size() - 1));
  result.fraction.resize(result.fraction.find_last_not_of('0') + 1);
  if (result.is_zero()) result.negative = false;
  return result;
}

std::string Decimal::text() const {
  return (negative ? "-" : "") + whole + (fraction.empty() ? "" : ".") + fraction;
}

bool operator<(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative;
  return a.negative ? magnitude_less(b, a) : magnitude_less(a, b);
}

}  // namespace neuronmm::grammar
