// Tests that hostile schemas and patterns end within their budget. hostile_suite.cc measures many
// more of them with the budget of the server.

#include "hostile_formats.h"

#include <chrono>

#include <gmock/gmock.h>

#include "compiled.h"

namespace neuronmm::grammar {
namespace {

using testing::HasSubstr;

// A small part of the budget of the server, so that the tests take little time.
constexpr BudgetLimits kSmall = {.steps = 2'000'000, .bytes = int64_t{16} << 20};
// Work is charged in portions, so a little more may be done than a limit allows.
constexpr int64_t kPortion = 1'100'000;

TEST(HostileFormats, EndWithinTheirBudget) {
  int accepted = 0, exceeded = 0;
  for (const HostileFormat& format : hostile_formats(150, 7)) {
    SCOPED_TRACE(format.kind + ": " + format.text.substr(0, 200));
    Budget budget(kSmall);
    const auto begin = std::chrono::steady_clock::now();
    const auto compiled = compile(format, format.is_pattern ? "pattern" : "schema", budget);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_LE(budget.steps(), kSmall.steps + kPortion);
    accepted += compiled.ok() ? 1 : 0;
    exceeded += budget.exceeded() ? 1 : 0;
    if (compiled.ok()) continue;
    EXPECT_TRUE(
        compiled.error().message.starts_with(format.is_pattern ? "pattern: " : "schema: ") ||
        compiled.error().message.starts_with("no document satisfies the schema") ||
        compiled.error().message.starts_with("the schema combines"))
        << compiled.error().message;
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(exceeded, 10);
}

std::string error_of_pattern(const std::string& pattern) {
  Budget budget;
  const auto compiled = compile_text(pattern, "regex", &budget);
  return compiled.ok() ? "no error" : compiled.error().message;
}

TEST(HostileFormats, CountedPropertiesTakeLittleMemory) {
  for (const char* pattern : {"\\p{L}{99000}", "[\\p{L}\\p{N}]{99000}", "\\P{Lu}{50,99000}"}) {
    Budget budget;
    const auto compiled = compile_text(pattern, "regex", &budget);
    ASSERT_FALSE(compiled.ok());
    EXPECT_THAT(compiled.error().message, HasSubstr("too large"));
    EXPECT_LT(budget.bytes(), int64_t{64} << 20) << pattern;
  }
  EXPECT_EQ(error_of_pattern("\\p{L}{100}"), "no error");
}

// Adding the characters one by one would take 80,000^2 steps.
TEST(HostileFormats, LargeClassesTakeLinearTime) {
  std::string pattern = "[";
  for (int i = 0; i < 80'000; ++i) pattern += fmt::format("\\u{{{:x}}}", 0x10FFFF - 2 * i);
  Budget budget;
  EXPECT_TRUE(compile_text(pattern + "]", "regex", &budget).ok());
  EXPECT_LT(budget.steps(), 40'000'000);
}

TEST(HostileFormats, ManyAlternativesWithoutNodesEnd) {
  std::string pattern = "(?:a";
  for (int i = 0; i < 2000; ++i) pattern += "|a";
  EXPECT_THAT(error_of_pattern(pattern + "){99999}"), HasSubstr("too large"));
  EXPECT_THAT(error_of_pattern("(?:(?:^|$){1000}){1000}"),
              testing::AnyOf("no error", HasSubstr("too large")));
}

TEST(HostileFormats, NestedLookaheadsEnd) {
  std::string pattern = ".*[ab].{9}x";
  for (int i = 0; i < 15; ++i) pattern = "(?!^" + pattern + ").*[ab].{9}" + std::to_string(i);
  EXPECT_THAT(
      error_of_pattern("^" + pattern + ".*$"),
      testing::AnyOf("no error", HasSubstr("too large"), HasSubstr("more than 50000 states")));
}

TEST(HostileFormats, CancelledWorkEndsAtOnce) {
  int asked = 0;
  Budget budget({.steps = int64_t{1} << 60, .bytes = int64_t{1} << 60},
                [&] { return ++asked > 3; });
  const auto compiled = compile_text("^(?:a|b)*a(?:a|b){60}$", "regex", &budget);
  ASSERT_FALSE(compiled.ok());
  EXPECT_TRUE(budget.cancelled());
  EXPECT_LT(budget.steps(), 1'000'000);
}

}  // namespace
}  // namespace neuronmm::grammar
