#pragma once
// Turns the limits of a number (bounds and multipleOf) into an automaton that reads its decimal
// digits. Numbers within limits are written without an exponent. SchemaLowering uses the automaton
// in the grammar, and SchemaNormalizer tests constants with it.

#include <optional>
#include <vector>

#include "base/result.h"
#include "serve/grammar/string_language.h"
#include "serve/schema/decimal.h"

namespace neuronmm::grammar {

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberLimits {
  bool integer = false;     // the number is written without a fraction and is not -0
  bool fractional = false;  // the number is not a whole number
  std::optional<NumberBound> minimum, maximum;
  std::vector<Decimal> multiples;  // the number is a multiple of each of these positive numbers

  // Returns whether the limits say at most that the number is an integer.
  bool only_type() const { return !fractional && !minimum && !maximum && multiples.empty(); }
};

// How many digits a number may have.
enum class NumberDigits {
  kAny,
  // Allows as many digits as a double or a 64-bit integer has: at most kMostSignificant if there is
  // a point, else at most kMostWhole. Bounds and divisors of more digits can be written in full. A
  // model that writes digits then comes to an end.
  kMachine,
};
inline constexpr int kMostSignificant = 17;  // documented (IEEE 754): they tell all doubles apart
inline constexpr int kMostWhole = 19;        // documented: those of the largest 64-bit integer

// Returns an error if the automaton would have more than StringLanguage::kMaxStates states, or if a
// divisor has too many digits, or if the budget is exceeded. The language is empty if no number is
// within the limits.
Result<StringLanguage> number_language(const NumberLimits& limits, Budget& budget,
                                       NumberDigits digits = NumberDigits::kAny);

}  // namespace neuronmm::grammar
