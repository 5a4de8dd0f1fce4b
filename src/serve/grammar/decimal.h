#pragma once
// A number of JSON as the digits that it is written with: bounds and multiples are compared digit
// by digit, exactly.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace neuronmm::grammar {

struct Decimal {
  bool negative = false;
  std::string whole = "0";  // no leading zeros
  std::string fraction;     // no trailing zeros

  // The shortest digits that read as the same number: 0.1 is one tenth.
  static Decimal of(const nlohmann::ordered_json& number);
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const;  // without an exponent
  bool operator==(const Decimal&) const = default;
};

bool operator<(const Decimal& a, const Decimal& b);

}  // namespace neuronmm::grammar
