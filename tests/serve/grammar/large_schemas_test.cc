// Tests of large schemas. Schemas whose automaton would grow without bound are refused in limited
// time, and schemas that are merely large compile.

#include <chrono>

#include <gmock/gmock.h>

#include "compiled.h"

namespace neuronmm::grammar {
namespace {

using testing::HasSubstr;

class LargeSchemas : public testing::Test {
 protected:
  ~LargeSchemas() override {
    const auto seconds = std::chrono::steady_clock::now() - begin_;
    EXPECT_LT(seconds, std::chrono::seconds(60));
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::string error_of(const Json& schema) {
  const auto compiled = compile_schema(schema, "schema");
  return compiled.ok() ? "no error" : compiled.error().message;
}

TEST_F(LargeSchemas, LargeCountsAreShortenedOrRefused) {
  EXPECT_EQ(error_of({{"type", "string"}, {"maxLength", 100'000}}), "no error");
  // Strings and arrays longer than any answer are left out, so such a limit costs little.
  EXPECT_EQ(error_of({{"type", "string"}, {"maxLength", 1'000'000'000}}), "no error");
  EXPECT_EQ(error_of({{"type", "array"}, {"maxItems", 1'000'000'000}}), "no error");
  Json unique = {{"type", "array"}, {"uniqueItems", true}, {"maxItems", 1'000'000'000}};
  unique["items"] = {{"type", "string"}};
  EXPECT_EQ(error_of(unique), "no error");
  unique["items"] = {{"enum", Json::array()}};
  for (int i = 0; i < 100; ++i) unique["items"]["enum"].push_back(i);
  EXPECT_EQ(error_of(unique), "no error");
  EXPECT_THAT(error_of({{"type", "object"}, {"maxProperties", 1'000'000'000}}), HasSubstr("edges"));
  EXPECT_THAT(error_of({{"type", "array"}, {"minItems", 1e18}}), HasSubstr("edges"));
  const Json null = {{"type", "null"}};
  EXPECT_THAT(error_of({{"contains", null}, {"minContains", 1e15}}), HasSubstr("edges"));
  EXPECT_THAT(error_of({{"contains", null}, {"minContains", 1000}, {"minItems", 1000}}),
              HasSubstr("edges"));
  EXPECT_THAT(error_of({{"type", "string"}, {"pattern", "a"}, {"minLength", 1e9}}),
              HasSubstr("states"));
  EXPECT_THAT(error_of({{"type", "integer"}, {"multipleOf", 1e9}}),
              HasSubstr("too large: use a smaller multipleOf or bounds of fewer digits"));
  EXPECT_THAT(error_of({{"type", "string"}, {"pattern", "(a{1,1000}){1,1000}"}}),
              HasSubstr("too large"));
}

// Strings with the same limits share a rule. Strings that cannot be counted exactly are shorter if
// there are many of them.
TEST_F(LargeSchemas, ManyLongStringsCompile) {
  Json counted, words;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "p" + std::to_string(i);
    counted["properties"][name] = {{"type", "string"}, {"maxLength", 100'000}};
    words["properties"][name] = {
        {"type", "string"}, {"maxLength", 5000 + i}, {"pattern", "^(\\S+\\s+){0,99}\\S+$"}};
  }
  EXPECT_EQ(error_of(counted), "no error");
  EXPECT_EQ(error_of(words), "no error");
  Compiled one(words["properties"]["p0"].dump());
  EXPECT_TRUE(one.accepts("\"" + std::string(40, 'a') + " " + std::string(40, 'b') + "\""));
  EXPECT_FALSE(one.accepts("\"" + std::string(5001, 'a') + "\""));
}

TEST_F(LargeSchemas, ManyConstantsCompile) {
  Json schema;
  for (int i = 0; i < 10'000; ++i) schema["enum"].push_back("value " + std::to_string(i));
  Compiled compiled(schema.dump());
  EXPECT_TRUE(compiled.accepts("\"value 9999\""));
  EXPECT_FALSE(compiled.accepts("\"value 10000\""));
  Json one_of;
  for (int i = 0; i < 10'000; ++i) one_of["oneOf"].push_back({{"const", i}});
  EXPECT_TRUE(Compiled(one_of.dump()).accepts("1234"));
}

// Constants with a common prefix share a path. Otherwise a state would hold ten thousand positions
// at every white space.
TEST_F(LargeSchemas, ManyNestedConstantsTakeLittleMemory) {
  Json schema;
  for (int i = 0; i < 10'000; ++i) schema["enum"].push_back({{"a", {{{"b", i}, {"c", {i % 7}}}}}});
  Compiled compiled(schema.dump());
  EXPECT_TRUE(compiled.accepts("{\n  \"a\": [ {\"b\":9999, \"c\": [\n   3 ]} ]}"));
  EXPECT_FALSE(compiled.accepts(R"({"a":[{"b":9999,"c":[4]}]})"));
  EXPECT_LT(compiled.automaton().bytes(), int64_t{1} << 20);
}

TEST_F(LargeSchemas, ManyPropertiesCompile) {
  Json schema = {{"type", "object"}};
  for (int i = 0; i < 2000; ++i)
    schema["properties"]["p" + std::to_string(i)] = {{"type", "integer"}};
  Compiled compiled(schema.dump());
  EXPECT_TRUE(compiled.accepts(R"({"p7":1,"p1999":2,"q":null})"));
  EXPECT_FALSE(compiled.accepts(R"({"p7":1,"p6":2})"));
}

TEST_F(LargeSchemas, DeepNestingIsRefused) {
  std::string deep = "{}";
  for (int i = 0; i < 30; ++i) deep = R"({"properties": {"a": )" + deep + "}}";
  EXPECT_EQ(Compiled::error(deep), "no error");
  EXPECT_THAT(Compiled::error(std::string(100'000, '[')), HasSubstr("deeper"));
  std::string many = "null";
  for (int i = 0; i < 2000; ++i) many = R"({"items": )" + many + "}";
  EXPECT_THAT(Compiled::error(many), HasSubstr("deeper"));
}

TEST_F(LargeSchemas, ManyNegationsAreRefused) {
  Json negated = {{"type", "object"}}, conditions;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "p" + std::to_string(i);
    const Json needed = {{"required", {name}}, {"properties", {{name, {{"const", i}}}}}};
    negated["not"]["anyOf"].push_back(needed);
    conditions["allOf"].push_back({{"if", needed}, {"then", {{"required", {"x"}}}}});
  }
  EXPECT_THAT(error_of(negated), HasSubstr("alternatives"));
  EXPECT_THAT(error_of(conditions), HasSubstr("alternatives"));
}

TEST_F(LargeSchemas, ManyCombinationsAreRefused) {
  Json all = Json::object();
  for (int i = 0; i < 30; ++i) {
    const std::string name = "p" + std::to_string(i);
    all["allOf"].push_back(
        {{"anyOf", {{{"required", {name}}}, {{"properties", {{name, false}}}}}}});
  }
  EXPECT_THAT(error_of(all), HasSubstr("alternatives"));
  Json dependent = {{"type", "object"}};
  for (int i = 0; i < 30; ++i) dependent["dependentRequired"]["p" + std::to_string(i)] = {"x"};
  EXPECT_THAT(error_of(dependent), HasSubstr("alternatives"));
  Json patterns = {{"type", "object"}};
  for (int i = 0; i < 20; ++i)
    patterns["patternProperties"]["x" + std::to_string(i)] = Json::object();
  EXPECT_THAT(error_of(patterns), HasSubstr("patternProperties"));
}

// Every definition refers to two others for its items. Each set of schemas that hold for the same
// value becomes only one rule.
TEST_F(LargeSchemas, RecursionEndsInTime) {
  Json schema = {{"$ref", "#/$defs/d0"}};
  for (int i = 0; i < 12; ++i) {
    const auto reference = [](int k) {
      return Json{{"$ref", "#/$defs/d" + std::to_string(k % 12)}};
    };
    schema["$defs"]["d" + std::to_string(i)] = {
        {"type", "array"}, {"items", {{"allOf", {reference(i + 1), reference(2 * i + 1)}}}}};
  }
  const std::string error = error_of(schema);
  EXPECT_TRUE(error == "no error" || error.find("edges") != std::string::npos) << error;
  Json chain = {{"$ref", "#/$defs/d0"}};
  for (int i = 0; i < 5000; ++i)
    chain["$defs"]["d" + std::to_string(i)] = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
  EXPECT_THAT(error_of(chain), HasSubstr("schemas refer to each other"));
}

}  // namespace
}  // namespace neuronmm::grammar
