// Tests of the budget of a request: what is charged, what is given back, and which part an error
// names.

#include "serve/grammar/budget.h"

#include <gmock/gmock.h>

#include "compiled.h"
#include "serve/grammar/pattern.h"

namespace neuronmm::grammar {
namespace {

using testing::HasSubstr;

TEST(Budget, IsExceededByStepsOrBytes) {
  Budget steps({.steps = 1'000'000, .bytes = 1'000'000});
  EXPECT_TRUE(steps.spend(1'000'000));
  EXPECT_FALSE(steps.spend(1));
  EXPECT_TRUE(steps.exceeded());
  EXPECT_THAT(steps.error().message, HasSubstr("1 million steps"));
  Budget bytes({.steps = 1'000'000, .bytes = int64_t{2} << 20});
  EXPECT_TRUE(bytes.allocate(int64_t{2} << 20));
  EXPECT_FALSE(bytes.allocate(1));
  bytes.release(int64_t{2} << 20);
  EXPECT_TRUE(bytes.exceeded());  // it stays exceeded
  EXPECT_THAT(bytes.error().message, HasSubstr("2 MiB of memory"));
}

TEST(Budget, GivesScratchMemoryBack) {
  Budget budget;
  budget.allocate(10);
  {
    Budget::Scratch scratch(budget);
    budget.allocate(1000);
    scratch.keep(5);
  }
  EXPECT_EQ(budget.bytes(), 15);
}

TEST(Budget, NamesThePartThatTookMost) {
  Budget budget({.steps = 1000, .bytes = 1000});
  const Budget::Part whole(budget, [] { return "whole"; });
  {
    const Budget::Part large(budget, [] { return "large"; });
    budget.spend(600);
  }
  const Budget::Part last(budget, [] { return "last"; });
  const Budget::Part inner(budget, [] { return "inner"; });
  EXPECT_FALSE(budget.spend(500));
  EXPECT_THAT(budget.error().message, testing::StartsWith("large: this is too large"));
}

TEST(Budget, NamesTheOpenPartAndNotTheOneAroundIt) {
  Budget budget({.steps = 1000, .bytes = 1000});
  const Budget::Part whole(budget, [] { return "whole"; });
  budget.spend(300);
  const Budget::Part open(budget, [] { return "open"; });
  EXPECT_FALSE(budget.spend(800));
  EXPECT_THAT(budget.error().message, testing::StartsWith("open: this is too large"));
}

TEST(Budget, IsCancelledFromOutside) {
  bool cancel = false;
  Budget budget({}, [&] { return cancel; });
  EXPECT_TRUE(budget.spend(1'000'000));
  cancel = true;
  EXPECT_FALSE(budget.spend(1'000'000));
  EXPECT_TRUE(budget.cancelled());
  EXPECT_EQ(budget.error().kind, Error::Kind::kInterrupted);
}

// The answer to a request must not depend on the requests before it.
TEST(Budget, CostsTheSameEachTime) {
  const auto steps = [](std::string_view pattern) {
    Budget budget;
    EXPECT_TRUE(compile_pattern(pattern, budget).ok());
    return budget.steps();
  };
  const int64_t first = steps("^\\p{Script=Georgian}+$");
  EXPECT_EQ(steps("^\\p{Script=Georgian}+$"), first);
  EXPECT_LT(steps("^\\p{sc=Georgian}\\p{Script=Georgian}+$"), first + first / 10);
}

std::string error_within(const BudgetLimits& limits, const Json& schema) {
  Budget budget(limits);
  const auto compiled =
      compile_schema(schema, "schema", {.closed_objects = false, .budget = &budget});
  return compiled.ok() ? "no error" : compiled.error().message;
}

TEST(Budget, ErrorsNameTheSchemaOrThePattern) {
  Json schema;
  for (int i = 0; i < 50; ++i)
    schema["properties"][fmt::format("p{}", i)] = {{"type", "string"}, {"maxLength", 9}};
  schema["properties"]["bad/name"] = {{"pattern", "^(?:a|b)*a(?:a|b){16}$"}};
  const BudgetLimits small = {.steps = 300'000, .bytes = int64_t{64} << 20};
  EXPECT_THAT(
      error_within(small, schema),
      testing::StartsWith("schema: /properties/bad~1name/pattern: \"^(?:a|b)*a(?:a|b){16}$\": "
                          "this is too large"));
  schema["properties"]["bad/name"] = {{"items", {{"type", "array"}, {"minItems", 50'000}}}};
  EXPECT_THAT(error_within(small, schema),
              testing::StartsWith("schema: /properties/bad~1name/items: this is too large"));
  Budget budget(small);
  const auto text = compile_text("x(?:a|b)*a(?:a|b){16}", "regex", &budget);
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(text.error().message,
              testing::StartsWith("regex: \"x(?:a|b)*a(?:a|b){16}\": this is"));
}

}  // namespace
}  // namespace neuronmm::grammar
