// This test checks Result, Status and the macros that pass errors on.

#include "base/result.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

Result<int> parse_digit(char c) {
  if (c < '0' || c > '9') return fail("expected a digit, found {}", c);
  return c - '0';
}

Status check_even(int value) {
  if (value % 2 != 0) return fail("{} is odd", value);
  return {};
}

Result<std::string> even_sum(char a, char b) {
  NMM_ASSIGN(const int first, parse_digit(a));
  NMM_ASSIGN(const int second, parse_digit(b));
  NMM_TRY(check_even(first + second));
  return std::to_string(first + second);
}

TEST(Result, ValuesPassThroughTheMacros) {
  const Result<std::string> sum = even_sum('3', '5');
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(*sum, "8");
  EXPECT_EQ(sum->size(), 1u);
}

TEST(Result, TheFirstErrorReturns) {
  EXPECT_EQ(even_sum('x', 'y').error().message, "expected a digit, found x");
  EXPECT_EQ(even_sum('1', 'y').error().message, "expected a digit, found y");
  EXPECT_EQ(even_sum('1', '2').error().message, "3 is odd");
}

TEST(Result, TryTakesAResultToo) {
  const auto check = [](char c) -> Status {
    NMM_TRY(parse_digit(c));
    return {};
  };
  EXPECT_TRUE(check('1').ok());
  EXPECT_EQ(check('x').error().message, "expected a digit, found x");
}

TEST(Result, TheKindOfAnErrorSurvives) {
  const auto inner = []() -> Status { return Error{"stopped", Error::Kind::kInterrupted}; };
  const auto outer = [&]() -> Result<int> {
    NMM_TRY(inner());
    return 1;
  };
  EXPECT_EQ(outer().error().kind, Error::Kind::kInterrupted);
}

TEST(Result, MoveOnlyValuesMoveOut) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto use = [&]() -> Result<int> {
    NMM_ASSIGN(const auto pointer, make());
    return *pointer;
  };
  EXPECT_EQ(*use(), 7);
}

TEST(ResultDeathTest, CheckNamesTheCondition) {
  EXPECT_DEATH(NMM_CHECK(1 + 1 == 3), "check failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace neuronmm
