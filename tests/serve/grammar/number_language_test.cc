// Tests the automata of numbers by comparing random numbers with their bounds directly.

#include "serve/schema/number_language.h"

#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace neuronmm::grammar {
namespace {

using Json = nlohmann::ordered_json;

Result<StringLanguage> numbers_within(const NumberLimits& limits) {
  Budget budget;
  return number_language(limits, budget);
}

TEST(Decimal, HasTheDigitsOfANumber) {
  EXPECT_EQ(Decimal::of(Json(0.1)).text(), "0.1");
  EXPECT_EQ(Decimal::of(Json(-1.0)).text(), "-1");
  EXPECT_EQ(Decimal::of(Json(-0.0)).text(), "0");
  EXPECT_EQ(Decimal::of(Json(1e21)).text(), "1" + std::string(21, '0'));
  EXPECT_EQ(Decimal::of(Json(1.5e-7)).text(), "0.00000015");
  EXPECT_EQ(Decimal::of(Json(UINT64_MAX)).text(), "18446744073709551615");
  EXPECT_EQ(Decimal::of(Json(INT64_MIN)).text(), "-9223372036854775808");
}

constexpr int kRounds = 300;

// The numbers are multiples of 0.25, written with up to three digits after the point.
TEST(NumberLanguage, ContainsTheNumbersWithinItsLimits) {
  std::mt19937 random(7);
  const auto quarter = [&](int range) {
    return (static_cast<int>(random() % range) - range / 2) * 0.25;
  };
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    NumberLimits limits;
    limits.integer = random() % 3 == 0;
    const double low = quarter(900), high = low + std::abs(quarter(900));
    const bool has_low = random() % 4 != 0, has_high = random() % 4 != 0;
    const bool low_open = random() % 2 == 0, high_open = random() % 2 == 0;
    if (has_low) limits.minimum = NumberBound{Decimal::of(Json(low)), low_open};
    if (has_high) limits.maximum = NumberBound{Decimal::of(Json(high)), high_open};
    const double multiple = 0.25 * static_cast<double>(1 + random() % 30);
    const bool has_multiple = random() % 3 == 0;
    if (has_multiple) limits.multiples = {Decimal::of(Json(multiple))};
    const auto language = numbers_within(limits);
    ASSERT_TRUE(language.ok()) << language.error().message;
    for (int i = 0; i < 60; ++i) {
      const double value = i < 4 ? (i % 2 == 0 ? low : high) + (i / 2) * 0.25 : quarter(2000);
      const bool whole = std::floor(value) == value;
      const bool expected = (!has_low || value > low || (value == low && !low_open)) &&
                            (!has_high || value < high || (value == high && !high_open)) &&
                            (!has_multiple || std::fmod(value, multiple) == 0.0) &&
                            (!limits.integer || whole);
      const std::string text = Decimal::of(Json(value)).text();
      ASSERT_EQ(language->accepts(text), expected) << text << " low " << low << " high " << high;
      const std::string longer = text + (whole ? ".0" : "0");
      ASSERT_EQ(language->accepts(longer), expected && !limits.integer) << longer;
      accepted += expected;
    }
  }
  EXPECT_GT(accepted, 3 * kRounds);
}

TEST(NumberLanguage, WritesNumbersAsJsonDoes) {
  const auto integers = numbers_within({.integer = true,
                                        .minimum = NumberBound{Decimal::of(Json(-5))},
                                        .maximum = {},
                                        .multiples = {}});
  for (const char* text : {"", "-", "-0", "01", "+1", "1.", "1.0", "1e1", ".5", "--1", "-6"})
    EXPECT_FALSE(integers->accepts(text)) << text;
  for (const char* text : {"0", "-5", "123456789012345678901234567890"})
    EXPECT_TRUE(integers->accepts(text)) << text;
}

TEST(NumberLanguage, IsExactForDecimalFractions) {
  const auto tenths = numbers_within({.integer = false,
                                      .minimum = {},
                                      .maximum = NumberBound{Decimal::of(Json(0.3))},
                                      .multiples = {Decimal::of(Json(0.1))}});
  EXPECT_TRUE(tenths->accepts("0.3"));
  EXPECT_TRUE(tenths->accepts("-7.30"));
  EXPECT_FALSE(tenths->accepts("0.4"));
  EXPECT_FALSE(tenths->accepts("0.25"));
}

}  // namespace
}  // namespace neuronmm::grammar
