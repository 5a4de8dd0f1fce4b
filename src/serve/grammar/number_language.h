#pragma once
// Numbers with bounds, or multiples of a number, as a language of the digits that they are written
// with. They have no exponent.

#include <optional>
#include <vector>

#include "base/result.h"
#include "serve/grammar/decimal.h"
#include "serve/grammar/string_language.h"

namespace neuronmm::grammar {

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberLimits {
  bool integer = false;     // written without a fraction, and never -0
  bool fractional = false;  // no whole number
  std::optional<NumberBound> minimum, maximum;
  std::vector<Decimal> multiples;  // of each of these, which are positive

  bool only_type() const { return !fractional && !minimum && !maximum && multiples.empty(); }
};

Result<StringLanguage> number_language(const NumberLimits& limits);

}  // namespace neuronmm::grammar
