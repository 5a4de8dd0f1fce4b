// Tests the strict JSON parser and the typed reading of fields.

#include "io/json_file.h"

#include <nlohmann/json.hpp>

#include "io_test.h"

namespace neuronmm::io {
namespace {

TEST(Json, RefusesDuplicateKeysAndDeepNesting) {
  // A key may occur again in another object.
  EXPECT_TRUE(parse_json(R"({"a":{"b":1},"b":{"b":2}})", "x").ok());
  EXPECT_TRUE(fails_with(parse_json(R"({"a":1,"a":2})", "x"), {"x:", "\"a\"", "twice"}));
  EXPECT_TRUE(fails_with(parse_json(R"([{"a":{"b":1,"b":1}}])", "x"), {"\"b\"", "twice"}));
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']'), "x").ok());
  EXPECT_TRUE(fails_with(parse_json(std::string(101, '[') + std::string(101, ']'), "x"),
                         {"x:", "nested deeper"}));
}

// The values must be those of nlohmann's own parser.
TEST(Json, BuildsEveryKindOfValue) {
  for (const std::string text :
       {"null", "true", "-12", "18446744073709551615", "1.5e3", R"("a\u00e9\n")", "[]", "{}",
        R"([1,[2,{"a":[]}],{"b":{"c":null,"d":[false,""]},"a":0},3])"}) {
    const auto parsed = parse_json(text, "x");
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, nlohmann::json::parse(text));
    EXPECT_EQ(parsed->dump(), nlohmann::json::parse(text).dump());
  }
}

TEST(Json, ErrorsOfMalformedTextNameTheLine) {
  EXPECT_TRUE(fails_with(parse_json("{\n\"a\":}", "x.json"), {"x.json: malformed", "line 2"}));
  EXPECT_TRUE(fails_with(parse_json("1e999", "x"), {"x: malformed"}));
  EXPECT_TRUE(fails_with(parse_json("", "x"), {"x: malformed"}));
}

TEST(Json, DescriptionsAreShort) {
  EXPECT_EQ(describe_json(nlohmann::json("gelu")), "\"gelu\"");
  EXPECT_EQ(describe_json(nlohmann::json(-3)), "-3");
  EXPECT_EQ(describe_json(nlohmann::json::array({1, 2})), "an array of 2");
  EXPECT_EQ(describe_json(nlohmann::json::object()), "an object of 0");
  EXPECT_LT(describe_json(nlohmann::json(std::string(1000, 'x'))).size(), 80u);
}

TEST(JsonFields, ReadsFieldsAndNamesThoseOfAWrongType) {
  const nlohmann::json object = {{"i", 3},        {"d", 0.5},     {"b", true},
                                 {"s", "text"},   {"n", nullptr}, {"big", UINT64_MAX},
                                 {"negative", -7}};
  const JsonFields fields(object, "x.json");
  EXPECT_EQ(**fields.integer("i"), 3);
  EXPECT_EQ(**fields.integer("negative"), -7);
  EXPECT_EQ(**fields.number("i"), 3.0);
  EXPECT_EQ(**fields.number("d"), 0.5);
  EXPECT_TRUE(**fields.boolean("b"));
  EXPECT_EQ(**fields.string("s"), "text");
  EXPECT_FALSE(fields.integer("n")->has_value());
  EXPECT_FALSE(fields.string("absent")->has_value());
  EXPECT_TRUE(fails_with(fields.integer("d"), {"x.json: \"d\": expected an integer, found 0.5"}));
  EXPECT_TRUE(fails_with(fields.integer("big"), {"18446744073709551615"}));
  EXPECT_TRUE(fails_with(fields.integer("b"), {"\"b\"", "found true"}));
  EXPECT_TRUE(fails_with(fields.number("s"), {"\"s\"", "a number", "\"text\""}));
  EXPECT_TRUE(fails_with(fields.boolean("i"), {"\"i\"", "true or false", "found 3"}));
  EXPECT_TRUE(fails_with(fields.string("i"), {"\"i\"", "a string", "found 3"}));
}

}  // namespace
}  // namespace neuronmm::io
