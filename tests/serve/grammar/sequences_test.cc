// Tests of repeated sequences of literal text and documents, which describe tool calls.

#include <gmock/gmock.h>

#include "compiled.h"

namespace neuronmm::grammar {
namespace {

const Json kCity = Json::parse(
    R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false})");
const Json kObject = Json::parse(R"({"type": "object"})");

RepeatedSequences calls(const Json& second, int64_t maximum) {
  return {.alternatives = {{"weather", SchemaPart{&kCity, "tools[0]"}, ";"},
                           {"now", SchemaPart{&second, "tools[1]"}, ";"}},
          .before = "<",
          .between = ", ",
          .after = ">",
          .maximum = maximum};
}

TEST(Sequences, AreRepeatedWithTextAroundAndBetween) {
  Compiled two(compile_sequences(calls(kObject, 2)).value());
  const std::string weather = R"(weather{"city": "Ulm"};)", now = R"(now{"a": 1};)";
  for (const std::string& text :
       {"<" + weather + ">", "<" + now + ">", "<" + weather + ", " + now + ">"})
    EXPECT_TRUE(two.accepts(text)) << text;
  for (const std::string& text :
       {std::string(), std::string("<>"), weather, "<" + weather + now + ">",
        "<" + now + ", " + now + ", " + now + ">", std::string("<weather{};>"),
        std::string("<other{};>")})
    EXPECT_FALSE(two.accepts(text)) << text;
}

TEST(Sequences, MayBeReplacedByADocument) {
  const Json number = Json::parse(R"({"type": "integer"})");
  RepeatedSequences sequences = calls(kObject, 2);
  sequences.alternative_document = SchemaPart{&number, "format"};
  Compiled either(compile_sequences(sequences).value());
  for (const char* text : {"12", "<now{};>", R"(<now{};, now{"a": 1};>)"})
    EXPECT_TRUE(either.accepts(text)) << text;
  for (const char* text : {"12<now{};>", "<12>", "{}", ""})
    EXPECT_FALSE(either.accepts(text)) << text;
}

TEST(Sequences, ErrorsNameTheirSource) {
  const Json bad = Json::parse(R"({"properties": {"x": {"not": {"multipleOf": 3}}}})");
  const auto refused = compile_sequences(calls(bad, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "tools[1]: /properties/x/not: multipleOf is not negated");
  const Json impossible = false;
  const auto none = compile_sequences(calls(impossible, 1));
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, testing::HasSubstr("tools[1]: "));
}

}  // namespace
}  // namespace neuronmm::grammar
