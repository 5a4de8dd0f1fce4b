// Tests the strict JSON parser and the typed reading of fields.

#include "io/json_file.h"

#include <nlohmann/json.hpp>

#include "io/ordered_json.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

TEST(Json, RefusesDuplicateKeysAndDeepNesting) {
  // A key may occur again in another object.
  EXPECT_TRUE(parse_json(R"({"a":{"b":1},"b":{"b":2}})", "x").ok());
  EXPECT_TRUE(fails_with(parse_json(R"({"a":1,"a":2})", "x"),
                         {"x:", "the key \"a\" occurs twice, with 1 and with 2"}));
  EXPECT_TRUE(fails_with(parse_json(R"([{"a":{"b":1,"b":[1]}}])", "x"), {"\"b\"", "twice"}));
  EXPECT_TRUE(parse_json(std::string(100, '[') + std::string(100, ']'), "x").ok());
  EXPECT_TRUE(fails_with(parse_json(std::string(101, '[') + std::string(101, ']'), "x"),
                         {"x:", "nested deeper"}));
}

TEST(Json, AKeyMayBeRepeatedWithItsValue) {
  const auto parsed = parse_json(R"({"a":{"b":[1],"b":[1]},"c":2,"a":{"b":[1]},"c":2,"c":2})", "x");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->dump(), R"({"a":{"b":[1]},"c":2})");
  EXPECT_TRUE(fails_with(parse_json(R"({"a":{"b":1,"b":2},"a":{"b":2}})", "x"), {"twice"}));
  EXPECT_TRUE(fails_with(parse_json(R"({"a":1,"a":1,"a":2})", "x"), {"twice"}));
  std::string many = "{\"a\":0";
  for (int i = 0; i < 200; ++i) many += ",\"a\":0";
  EXPECT_TRUE(fails_with(parse_json(many + "}", "x"), {"\"a\"", "twice"}));
}

TEST(Json, TheOrderOfKeysMayBeKept) {
  EXPECT_EQ(parse_ordered_json(R"({"c":2,"a":{"b":1,"a":[],"b":1},"c":2,"b":null})").dump(),
            R"({"c":2,"a":{"b":1,"a":[]},"b":null})");
  EXPECT_EQ(parse_ordered_json("[3]").dump(), "[3]");
}

// The spelling is that of transformers (PretrainedConfig._encode_special_floats).
TEST(Json, NumbersOfPythonBecomeJson) {
  EXPECT_EQ(strict_json(R"({"a": NaN, "b": [Infinity, -Infinity]})"),
            R"({"a": {"__float__":"NaN"}, "b": [{"__float__":"Infinity"}, )"
            R"({"__float__":"-Infinity"}]})");
  for (const std::string text :
       {R"({"NaN": "Infinity", "a": "\"NaN"})", "{}", "", "\"Na", R"("\)", "[1e5, -1]"}) {
    EXPECT_EQ(strict_json(text), text);
  }
  const auto parsed = parse_json(strict_json(R"({"a": NaN})"), "x").value();
  EXPECT_EQ(describe_json(parsed["a"]), "\"NaN\"");
  EXPECT_TRUE(fails_with(JsonFields(parsed, "x").number("a"), {"a number", "found \"NaN\""}));
  EXPECT_FALSE(parse_json(strict_json(R"({"a": NaNa})"), "x").ok());
}

TEST(JsonFields, AWholeNumberMayBeWrittenAsAFloat) {
  const nlohmann::json object = {{"a", 1e6}, {"b", -3.0}, {"c", 7},
                                 {"d", 0.5}, {"e", 1e16}, {"f", "1"}};
  const JsonFields fields(object, "x");
  EXPECT_EQ(**fields.whole_number("a"), 1000000);
  EXPECT_EQ(**fields.whole_number("b"), -3);
  EXPECT_EQ(**fields.whole_number("c"), 7);
  EXPECT_FALSE(fields.whole_number("absent")->has_value());
  for (const char* key : {"d", "e", "f"})
    EXPECT_TRUE(fails_with(fields.whole_number(key), {"an integer"})) << key;
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
