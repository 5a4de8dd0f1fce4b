#pragma once
// A number of a schema as decimal digits. Bounds, multiples and constants are compared digit by
// digit, so that nothing is rounded.

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace neuronmm::grammar {

struct Decimal {
  bool negative = false;
  std::string whole = "0";  // without leading zeros
  std::string fraction;     // without trailing zeros

  // Converts a JSON number. For a double, takes the shortest digits that read as the same double,
  // so that 0.1 is exactly one tenth.
  static Decimal of(const nlohmann::ordered_json& number);
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string text() const;  // the digits without an exponent
  bool operator==(const Decimal&) const = default;
};

bool operator<(const Decimal& a, const Decimal& b);

}  // namespace neuronmm::grammar
