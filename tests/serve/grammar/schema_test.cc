// Tests of compiled schemas, keyword by keyword: which texts the grammar accepts and refuses, and
// the messages for schemas that cannot be compiled.

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "compiled.h"

namespace neuronmm::grammar {
namespace {

using testing::HasSubstr;

void expect_texts(std::string_view schema, const std::vector<std::string>& accepted,
                  const std::vector<std::string>& refused, const SchemaOptions& options = {}) {
  Compiled compiled(schema, options);
  for (const std::string& text : accepted)
    EXPECT_TRUE(compiled.accepts(text)) << schema << "\nrefuses " << text;
  for (const std::string& text : refused)
    EXPECT_FALSE(compiled.accepts(text)) << schema << "\naccepts " << text;
}

TEST(Schema, UniqueItemsDiffer) {
  Compiled constants(
      R"({"type": "array", "items": {"enum": ["a", 1, 1.0, null]}, "uniqueItems": true})");
  for (const char* text : {"[]", R"(["a"])", R"([1,"a",null])", R"([null, 1])"})
    EXPECT_TRUE(constants.accepts(text)) << text;
  for (const char* text : {R"(["a","a"])", "[1,1.0]", R"([null,"a",null])"})
    EXPECT_FALSE(constants.accepts(text)) << text;
  Compiled pair(R"({"prefixItems": [{"const": 1}, {"enum": [1, 2]}], "items": {"type": "boolean"},
                    "type": "array", "uniqueItems": true, "minItems": 3})");
  EXPECT_TRUE(pair.accepts("[1,2,true,false]"));
  EXPECT_FALSE(pair.accepts("[1,1,true]"));
  EXPECT_FALSE(pair.accepts("[1,2,true,true]"));
  Compiled strings(
      R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 3})");
  EXPECT_TRUE(strings.accepts(R"(["a","b\n","b"])"));
  for (const char* text : {R"(["a", "a"])", R"(["b\n","b","b\n"])", R"(["a","b","c","d"])"})
    EXPECT_FALSE(strings.accepts(text)) << text;
  Compiled nested(
      R"({"type": "array", "items": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}})");
  EXPECT_TRUE(nested.accepts(R"([["a","b"],["a"]])"));
  EXPECT_FALSE(nested.accepts(R"([["a"],["b","b"]])"));
  Compiled keys(R"({"type": "object", "additionalProperties": {"$ref": "#/$defs/names"},
                    "$defs": {"names": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}})");
  EXPECT_TRUE(keys.accepts(R"({"a":["a","b"],"b":["a"]})"));
  EXPECT_FALSE(keys.accepts(R"({"a":["b","a","b"]})"));
}

// There are too many constants for a state per set of them.
TEST(Schema, ManyUniqueConstantsComeInTheSchemasOrder) {
  Json schema = {{"type", "array"}, {"uniqueItems", true}, {"minItems", 2}};
  for (int i = 0; i < 200; ++i) schema["items"]["enum"].push_back(i);
  Compiled any(schema.dump());
  EXPECT_TRUE(any.accepts("[3,50,199]"));
  EXPECT_FALSE(any.accepts("[3]"));
  EXPECT_FALSE(any.accepts("[3,3]"));
  EXPECT_FALSE(any.accepts("[3,50,3]"));
  schema["maxItems"] = 3;
  Compiled three(schema.dump());
  EXPECT_TRUE(three.accepts("[0,1,199]"));
  EXPECT_FALSE(three.accepts("[0,1,2,3]"));
}

TEST(Schema, WhiteSpaceIsBounded) {
  expect_texts(R"({"type": "object", "properties": {"a": {"type": "array"}, "b": {}}})",
               {R"({"a":[1,2],"b":{}})", R"({"a": [1, 2], "b": {}})",
                "{\n  \"a\": [\n    1\n  ]\n}", R"({ "a": [ 1 ] })", "{}"},
               {" {}", "{} ", "{  \"a\":[]}", "{\"a\" :[]}", "{\"a\":  []}", "{\n\n\"a\":[]}",
                "{\t\"a\":[]}", "{\"a\":[] ,\"b\":1}", "{\n" + std::string(33, ' ') + "\"a\":[]}"});
}

TEST(Schema, PropertiesComeInTheSchemasOrder) {
  constexpr std::string_view kSchema =
      R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"},
          "c": {"type": "integer"}}, "required": ["a"], "additionalProperties": false})";
  expect_texts(kSchema,
               {R"({"a":1})", R"({"b":1,"a":1})", R"({"a":1,"c":1})", R"({"b":1,"a":1,"c":1})"},
               {"{}", R"({"b":1})", R"({"a":1,"b":1})", R"({"a":1,"a":1})", R"({"a":1,"d":1})",
                R"({"a":1,})", R"({,"a":1})"});
}

TEST(Schema, OtherPropertiesFollowTheNamedOnes) {
  constexpr std::string_view kOpen =
      R"({"type": "object", "properties": {"a": {"type": "integer"}}})";
  expect_texts(kOpen, {R"({"a":1,"x":"y"})", R"({"x":null,"y":[]})", R"({"aa":null})"},
               {R"({"x":1,"a":1})", R"({"a":"x"})", R"({"\u0061":"x"})"});
  expect_texts(kOpen, {R"({"a":1})", "{}"}, {R"({"a":1,"x":"y"})", R"({"x":1})"},
               {.closed_objects = true});
  expect_texts(R"({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})",
               {R"({"a":"x","b":1})", "[]"}, {R"({"a":"x","b":"x"})"}, {.closed_objects = true});
  expect_texts(
      R"({"type": "object", "patternProperties": {"^n": {"type": "integer"}, "x$": {"minimum": 3}},
                   "additionalProperties": false})",
      {R"({"n":1,"nx":3,"x":"any"})"}, {R"({"nx":1})", R"({"n":"1"})", R"({"a":1})"});
}

TEST(Schema, StringsMayHaveAnyCharacterAndEscape) {
  expect_texts(R"({"type": "string"})",
               {R"("")", R"("aé日😀")", R"("\"\\\/\b\f\n\r\t")", R"("\u0041\u00e9\uFFFF")",
                R"("\ud83d\uDE00")", "\"\x7f\""},
               {"\"\n\"", "\"\x1f\"", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ude00")",
                R"("\ud83d\u0041")", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
                "\"\xff\"", "\"a", "'a'"});
}

TEST(Schema, LengthsCountCharacters) {
  expect_texts(R"({"type": "string", "minLength": 2, "maxLength": 3})",
               {R"("ab")", R"("日本語")", R"("\u0041\n")", R"("\ud83d\ude00a")", R"("😀😀😀")"},
               {R"("a")", R"("abcd")", R"("😀")", R"("\ud83d\ude00")"});
}

TEST(Schema, PatternsHoldForTheValueOfAString) {
  expect_texts(R"({"type": "string", "pattern": "^[a\"\\n\\\\]+$"})", {R"("a\"\n\\")", R"("a")"},
               {R"("")", "\"\n\"", R"("b")", R"("\u0061")"});
  expect_texts(R"({"type": "string", "pattern": "b+", "minLength": 3, "maxLength": 4})",
               {R"("abc")", R"("bbbb")", R"("éab")"}, {R"("ab")", R"("aaa")", R"("abcde")"});
}

TEST(Schema, ConstantsAreFilteredByTheOtherKeywords) {
  expect_texts(
      R"({"enum": [1, 2.5, "a", null, {"b": [1, {}]}], "type": ["integer", "object", "null"]})",
      {"1", "null", R"({"b":[1,{}]})", R"({"b": [1, {}]})", "{\n \"b\": [1, {}]}"},
      {"2.5", R"("a")", "true"});
  expect_texts(R"({"enum": [1, 5, 9], "minimum": 3, "not_a_keyword": 1})", {"5", "9"}, {"1", "59"});
}

TEST(Schema, ReferencesMayRecur) {
  constexpr std::string_view kTree =
      R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
          "properties": {"value": {"type": "integer"}, "children": {"type": "array",
          "items": {"$ref": "#/$defs/node"}}}, "required": ["value"], "additionalProperties": false}}})";
  expect_texts(kTree, {R"({"value":1,"children":[{"value":2},{"value":3,"children":[]}]})"},
               {R"({"value":1,"children":[{}]})", R"({"value":1,"children":[1]})"});
  expect_texts(R"({"definitions": {"a/b": {"type": "null"}}, "$ref": "#/definitions/a~1b"})",
               {"null"}, {"1"});
}

TEST(Schema, AllPartsOfACombinationHold) {
  expect_texts(
      R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                   {"properties": {"a": {"minimum": 3}, "b": {"type": "null"}}}]})",
      {R"({"a":3})", R"({"a":4,"b":null})"}, {R"({"a":2})", R"({"b":null})", R"({"a":3,"b":1})"});
  expect_texts(
      R"({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer"}], "minimum": 0})",
      {R"("a")", "0"}, {"-1", R"("ab")", "null"});
  expect_texts(R"({"type": "string", "nullable": true})", {"null", R"("")"}, {"1"});
  expect_texts(R"({"dependentRequired": {"a": ["b"]}, "properties": {"a": {}, "b": {}}})",
               {"{}", R"({"b":1})", R"({"a":1,"b":1})", "3"}, {R"({"a":1})"});
}

TEST(Schema, OneOfIsAnyOfOnlyIfANoteSaysSo) {
  constexpr std::string_view kApart =
      R"({"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}}, "required": ["t"]},
          {"type": "object", "properties": {"t": {"const": "b"}}, "required": ["t"]}, {"type": "string"}]})";
  EXPECT_THAT(Compiled(kApart).notes(), testing::IsEmpty());
  // Multiples cannot be negated, so values that both branches allow stay.
  constexpr std::string_view kMultiples =
      R"({"properties": {"x": {"type": "integer", "oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}}})";
  EXPECT_THAT(
      Compiled(kMultiples).notes(),
      testing::ElementsAre(AllOf(HasSubstr("schema: /properties/x/oneOf"), HasSubstr("anyOf"))));
  EXPECT_TRUE(Compiled(kMultiples).accepts(R"({"x":6})"));
}

TEST(Schema, ItemsThatCannotBeComparedInTimeMayRepeatAndANoteSaysSo) {
  for (const char* items :
       {R"({"type": "object"})", R"({"type": "integer"})", R"({"type": "string", "maxLength": 3})",
        R"({"anyOf": [{"type": "string"}, {"type": "null"}]})"}) {
    Compiled compiled(fmt::format(
        R"({{"properties": {{"x": {{"type": "array", "items": {}, "minItems": 2, "uniqueItems": true}}}}}})",
        items));
    EXPECT_THAT(compiled.notes(), testing::ElementsAre(HasSubstr("/properties/x/uniqueItems: ")))
        << items;
    EXPECT_FALSE(compiled.accepts(R"({"x":[]})")) << items;
  }
}

// A value that two branches share is not allowed.
TEST(Schema, OneOfAllowsValuesOfExactlyOneBranch) {
  expect_texts(
      R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": false,
                   "oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]})",
      {R"({"a":1})", R"({"b":1})", R"({"c":1})"},
      {"{}", R"({"a":1,"b":1})", R"({"a":1,"c":1})", R"({"a":1,"b":1,"c":1})"});
  expect_texts(R"({"oneOf": [{"minimum": 1}, {"minimum": 3}], "type": "integer"})", {"1", "2"},
               {"0", "3", "4"});
  expect_texts(R"({"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "string"}]})",
               {"0.5", R"("a")"}, {"1", "null"});
  const std::string_view kNested =
      R"({"type": "array", "items": {"oneOf": [{"$ref": "#/$defs/named"}, {"$ref": "#/$defs/sized"}]},
          "$defs": {"named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
                    "sized": {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}}})";
  expect_texts(kNested, {R"([{"name":"a"},{"size":1}])", R"([{"name":"a","size":"b"}])"},
               {R"([{"name":"a","size":1}])", "[{}]"});
  EXPECT_THAT(Compiled(kNested).notes(), testing::IsEmpty());
  EXPECT_THAT(Compiled::error(R"({"oneOf": [{"type": "string"}, {"type": "string"}]})"),
              HasSubstr("no document satisfies"));
}

TEST(Schema, NotAllowsAllOtherValues) {
  expect_texts(R"({"type": "string", "not": {"enum": ["a", "bc", 5]}})", {R"("b")", R"("")"},
               {R"("a")", R"("bc")", "5"});
  expect_texts(R"({"not": {"type": ["integer", "string"]}})", {"1.5", "null", "[]", "-0.25"},
               {"1", "0", R"("a")", "-3"});
  expect_texts(R"({"type": "integer", "not": {"enum": [3, 5]}, "minimum": 2, "maximum": 6})",
               {"2", "4", "6"}, {"3", "5", "7"});
  expect_texts(R"({"type": "object", "properties": {"a": {}}, "not": {"required": ["a"]}})",
               {"{}", R"({"b":1})"}, {R"({"a":1})"});
  expect_texts(R"({"type": "array", "not": {"contains": {"type": "null"}}})", {"[]", "[1,2]"},
               {"[1,null]"});
}

// A property decides which other properties are needed, as in many forms.
TEST(Schema, IfChoosesBetweenThenAndElse) {
  constexpr std::string_view kSchema =
      R"({"type": "object", "properties": {"kind": {"enum": ["card", "cash"]}, "number": {"type": "integer"}},
          "required": ["kind"], "if": {"properties": {"kind": {"const": "card"}}},
          "then": {"required": ["number"]}, "else": {"properties": {"number": false}}})";
  for (const bool closed : {false, true})
    expect_texts(kSchema, {R"({"kind":"card","number":1})", R"({"kind":"cash"})"},
                 {R"({"kind":"card"})", R"({"kind":"cash","number":1})", "{}"},
                 {.closed_objects = closed});
}

TEST(Schema, ContainsCountsItems) {
  expect_texts(R"({"contains": {"const": 5}, "items": {"type": "integer"}})",
               {"[5]", "[1,5]", "[5,1]", "[5,5]"}, {"[]", "[1]", R"([5,"a"])"});
  expect_texts(R"({"contains": {"minimum": 5}, "minContains": 2, "maxContains": 3})",
               {"[5,6]", "[5,1,6,2,7]", R"(["a",9,9])"}, {"[5,1]", "[5,6,7,8]", "[]"});
  expect_texts(R"({"contains": {}, "maxItems": 2, "minContains": 0})", {"[]", "[1,2]"},
               {"[1,2,3]"});
}

TEST(Schema, UnevaluatedPropertiesAndItemsCanBeForbidden) {
  expect_texts(R"({"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}}],
                   "properties": {"b": {}}, "unevaluatedProperties": false})",
               {"{}", R"({"b":1,"a":1})"}, {R"({"c":1})", R"({"a":"x"})"});
  // If two branches hold, the properties of both are evaluated.
  expect_texts(
      R"({"type": "object", "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                   {"properties": {"b": {"type": "integer"}}, "required": ["b"]}],
                   "unevaluatedProperties": false})",
      {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"}, {"{}", R"({"a":1,"c":1})"});
  expect_texts(R"({"prefixItems": [{"type": "integer"}], "unevaluatedItems": false})",
               {"[]", "[1]", "{}"}, {"[1,2]", R"(["a"])"});
}

TEST(Schema, UnsupportedKeywordsAreRefusedWithTheirPath) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"properties": {"a/b": {"not": {"multipleOf": 3}}}})",
       "schema: /properties/a~1b/not: multipleOf is not negated"},
      {R"({"if": {"oneOf": [{"minimum": 1}, {"maximum": 3}]}, "then": {"type": "null"}})",
       "/if: a oneOf whose branches may share values is not negated"},
      {R"({"not": {"const": [1]}})", "/not: a constant that is an array or an object"},
      {R"({"not": {"additionalProperties": {"type": "null"}}})", "/not: properties that are not"},
      {R"({"not": {"$ref": "#"}})", "the schema refers to itself"},
      {R"({"not": {"type": "array", "uniqueItems": true}})", "uniqueItems is not negated"},
      {R"({"allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]})",
       "more than one `contains`"},
      {R"({"properties": {"a": {"contains": {"const": 1}, "not": {"contains": {"const": 2}}}}})",
       "schema: /properties/a: more than one `contains`"},
      {R"({"contains": {"const": 1}, "if": {"contains": {"const": 2}}, "then": {"minItems": 3}})",
       "more than one `contains`"},
      {R"({"contains": {"const": 1}, "unevaluatedItems": false})", "/unevaluatedItems: "},
      {R"({"items": {"$dynamicRef": "#x"}})", "/items/$dynamicRef: this keyword is not supported"},
      {R"__({"type": "string", "pattern": "^a(?=b)"})__", "/pattern: lookaround"},
      {R"__({"type": "string", "pattern": "(a)\\1"})__", "/pattern: a backreference"},
      {R"__({"type": "string", "pattern": "(?<n>a)\\k<n>"})__", "/pattern: a backreference"},
      {R"({"type": "string", "pattern": "\\01"})", "/pattern: an octal escape"},
      {R"({"type": "string", "pattern": "\\bx"})", "/pattern: the word border \\b"},
      {R"({"type": "string", "pattern": "x\\B"})", "/pattern: the word border \\B"},
      {R"({"patternProperties": {"a": {}, "\\bx": {}}})",
       "/patternProperties/\\bx: the word border"},
      {R"__({"propertyNames": {"pattern": "(a)\\1"}})__",
       "/propertyNames/pattern: a backreference"},
      {R"({"type": "string", "not": {"format": "regex"}})", "only some strings are known"},
      {R"({"$ref": "https://example.com/x"})", "/$ref: expected a reference into the same schema"},
      {R"({"$ref": "#/$defs/x"})", "/$ref: \"#/$defs/x\" leads nowhere"},
      {R"({"type": "strnig"})",
       "/type: expected null, boolean, integer, number, string, array or object, found \"strnig\""},
      {R"({"minLength": -1})", "/minLength: expected a whole number from 0, found -1"},
      {R"({"type": "object", "minProperties": 2})", "minProperties 2 is not supported"},
      {R"({"properties": {"a": 3}})", "/properties/a: expected a schema"},
      {R"([1])", "the schema: expected a schema"},
      {R"({"anyOf": []})", "/anyOf: expected a list of schemas"},
  };
  for (const auto& [schema, message] : cases)
    EXPECT_THAT(Compiled::error(schema), HasSubstr(message)) << schema;
}

TEST(Schema, ContradictionsAreRefusedWithTheirPath) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"false", "no document satisfies the schema"},
      {R"({"type": "integer", "minimum": 5, "maximum": 3})", "no number is within its limits"},
      {R"({"type": "integer", "minimum": 1.2, "maximum": 1.8})", "no number is within its limits"},
      {R"({"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}},
           "required": ["a"]})",
       "schema: /properties/a: no string is within its limits"},
      {R"({"type": "string", "pattern": "^a", "allOf": [{"pattern": "^b"}]})",
       "no string is within"},
      {R"({"type": "object", "required": ["a"], "additionalProperties": false})",
       "the property \"a\" is required and never allowed"},
      {R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "no value can satisfy it"},
      {R"({"enum": [1, 2], "type": "string"})", "no value can satisfy it"},
      {R"({"enum": []})", "no value can satisfy it"},
      {R"({"type": "object", "minProperties": 3, "allOf": [{"maxProperties": 2}]})",
       "the schema: minProperties 3 is more than maxProperties 2"},
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false,
           "minProperties": 3})",
       "minProperties 3 is more than the properties that it may have, 2"},
      {R"({"type": "object", "properties": {"o": {"type": "object", "propertyNames": {"type": "null"},
                                                  "minProperties": 1}}, "required": ["o"]})",
       "/properties/o: minProperties 1 is more than the properties that it may have, 0"},
      {R"({"type": "object", "required": ["a", "b"], "maxProperties": 1})",
       "its required properties, 2, are more than maxProperties 1"},
      {R"({"type": "object", "propertyNames": {"pattern": "^b"}, "required": ["a"]})",
       "the property \"a\" is required and never allowed"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", "minItems 3 is more than maxItems 2"},
      {R"({"type": "array", "contains": {}, "maxItems": 0})",
       "minContains 1 is more than maxItems 0"},
      {R"({"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 3})",
       "minItems 3 is more than its items that differ, 2"},
  };
  for (const auto& [schema, message] : cases)
    EXPECT_THAT(Compiled::error(schema), HasSubstr(message)) << schema;
  // A property that is never allowed and not required is left out.
  expect_texts(
      R"({"properties": {"a": false, "b": {"type": "null"}}, "additionalProperties": false})",
      {"{}", R"({"b":null})"}, {R"({"a":1})"});
}

TEST(Schema, SchemasWithOnlyEndlessDocumentsAreRefused) {
  EXPECT_THAT(
      Compiled::error(
          R"({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]})"),
      HasSubstr("would have to be endless"));
  EXPECT_THAT(Compiled::error(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"),
              HasSubstr("refers to itself"));
  EXPECT_THAT(
      Compiled::error(
          R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})"),
      HasSubstr("/$defs/"));
}

TEST(Schema, OldDraftsIgnoreKeywordsNextToAReference) {
  constexpr std::string_view kTail =
      R"("$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a", "minimum": 3})";
  expect_texts(R"({"$schema": "http://json-schema.org/draft-07/schema#", )" + std::string(kTail),
               {"1", "3"}, {"null"});
  expect_texts("{" + std::string(kTail), {"3"}, {"1", "null"});
}

TEST(Schema, FormatsAreEnforced) {
  const auto format = [](const char* name) {
    return fmt::format(R"({{"type": "string", "format": "{}"}})", name);
  };
  expect_texts(format("date"), {R"("2024-02-29")", R"("1999-12-31")"},
               {R"("2023-02-29")", R"("1900-02-29")", R"("2024-04-31")"});
  expect_texts(format("date-time"),
               {R"("2024-01-01T00:00:00Z")", R"("2024-01-01T23:59:59.123+05:30")"},
               {R"("2024-01-01")", R"("2024-01-01T24:00:00Z")"});
  expect_texts(format("uuid"), {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
  expect_texts(
      format("uuid4"), {R"("123e4567-e89b-42d3-a456-426614174000")"},
      {R"("123e4567-e89b-12d3-a456-426614174000")", R"("123e4567-e89b-42d3-c456-426614174000")"});
  expect_texts(format("base64"), {R"("")", R"("QQ==")", R"("QUI=")", R"("ab+/")"},
               {R"("QR==")", R"("QUJ=")", R"("abc")", R"("ab-_")"});
  expect_texts(format("base64url"), {R"("ab-_")"}, {R"("ab+/")"});
  expect_texts(format("ipvanyaddress"), {R"("127.0.0.1")", R"("::1")"}, {R"("localhost")"});
  expect_texts(format("ipv4"), {R"("127.0.0.1")"}, {R"("256.0.0.1")", R"("127.0.1")"});
  expect_texts(format("ipv6"), {R"("::1")", R"("2001:db8::ff00:42:8329")"}, {R"("1::2::3")"});
  expect_texts(format("email"), {R"("a.b@example.com")", R"("root@localhost")"},
               {R"("a@")", R"(".a@b.c")"});
  expect_texts(format("idn-email"), {R"("a.b@example.com")", R"("실례@example.com")"}, {R"("a@")"});
  expect_texts(format("idn-hostname"), {R"("example.com")"}, {R"("-a.com")"});
  expect_texts(format("iri"), {R"("http://ƒøø.ßår/?∂éœ=πîx#πîüx")", R"("urn:a:b")"},
               {R"("//ƒøø.ßår")", R"("http://2001:0db8:85a3::8a2e:0370:7334")", R"("âππ")"});
  expect_texts(format("iri-reference"), {R"("âππ")", R"("/a?b")"}, {R"("a b")"});
  expect_texts(format("uri-template"), {R"("http://example.com/{term:1}/{a,b*}")", R"("/x{?q}")"},
               {R"("http://example.com/{term:1}/{term")", R"("{}")", R"("a b")"});
  expect_texts(format("regex"),
               {R"("^[A-Za-z_]\\w*(?:\\.\\d{2,}x{3,16})?$")", R"__("([abc])+\\s+$")__", R"("")",
                R"__("a|(b|(c*))")__"},
               {R"__("^(abc]")__", R"("*a")", R"("a**")", R"("[z-a]")", R"("a{2,1}")", R"__("(")__",
                R"("\\q")"});
  expect_texts(format("int32"), {R"("anything")"}, {});
}

TEST(Schema, DepthIsBoundedWithoutDeadEnds) {
  Compiled any("true");
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(any.accepts(nested(200)));
  EXPECT_FALSE(any.accepts(nested(300)));
  // At the limit, only bytes that close a value are allowed.
  StateId state = any.automaton().start();
  for (int i = 0; i < 300; ++i) {
    const StateId next = any.automaton().step(state, '[');
    if (next == Automaton::kDead) break;
    state = next;
  }
  EXPECT_NE(any.automaton().step(state, ']'), Automaton::kDead);
}

// A model that writes digits must come to an end.
TEST(Schema, NumbersHaveTheDigitsOfTheMachine) {
  expect_texts(R"({"type": "integer"})", {"9223372036854775807", "-9223372036854775808", "0"},
               {"12345678901234567890", "-0", "00"});
  expect_texts(R"({"type": "number"})",
               {"1234567890123456789", "0.12345678901234567", "1.2345678901234567",
                "0.00012345678901234567", "-0.0", "1234567890123456.7", "1e30", "2.5E-07", "10.0"},
               {"12345678901234567890", "0.123456789012345678", "1.23456789012345678",
                "12345678901234567890.5", "1e100", "0." + std::string(40, '0'), "1.", ".5"});
  expect_texts("{}", {"1234567890123456789"}, {"12345678901234567890"});
  expect_texts(R"({"type": "integer", "minimum": 1})", {"9223372036854775807"},
               {"12345678901234567890", "0"});
  expect_texts(R"({"type": "number", "minimum": 0})",
               {"0.12345678901234567", "1.1234567890123456", "9223372036854775807"},
               {"0.123456789012345678", "1.12345678901234567", "12345678901234567890"});
  expect_texts(R"({"type": "number", "multipleOf": 0.01})", {"0.25", "12.50"},
               {"0.255", "0." + std::string(20, '0')});
}

TEST(Schema, BoundsMayHaveMoreDigitsThanTheMachine) {
  expect_texts(R"({"type": "number", "minimum": 1e21, "maximum": 3e21})",
               {"1000000000000000000000", "2999999999999999999999"}, {"999999999999999999999"});
  expect_texts(R"({"type": "number", "minimum": 1e-20, "maximum": 2e-20})",
               {"0.00000000000000000001", "0.000000000000000000015"}, {"0.1"});
  expect_texts(R"({"type": "integer", "minimum": 1e21})", {"1000000000000000000000"},
               {"10000000000000000000000000"});
  expect_texts(R"({"enum": [1e25], "minimum": 0})", {"10000000000000000000000000"}, {"1"});
}

// The parameters of a function that has none.
TEST(Schema, EmptyPropertiesCloseObjectsOfCalls) {
  const Json schema = Json::parse(R"({"type": "object", "properties": {}})");
  for (const bool closes : {false, true}) {
    auto compiled = compile_sequences({.alternatives = {{SchemaPart{&schema, "schema", closes}}},
                                       .before = {},
                                       .between = {},
                                       .after = {}},
                                      {.closed_objects = true});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    Compiled object(std::move(*compiled));
    EXPECT_TRUE(object.accepts("{}"));
    EXPECT_EQ(object.accepts(R"({"a": 1})"), !closes);
  }
}

TEST(Schema, ObjectsWithoutNamedPropertiesStayOpen) {
  Compiled object(R"({"type": "object"})", {.closed_objects = true});
  EXPECT_TRUE(object.accepts(R"({"a": [1, -2.5e-10, "x", null, true], "b": {"c": {}}})"));
  EXPECT_FALSE(object.accepts("[]"));
  EXPECT_FALSE(object.accepts(R"({"a": 01})"));
}

TEST(Text, UnbalancedAndUnsupportedPatternsAreRefused) {
  for (const char* pattern : {"a)|(?:b", "a|b)(c", ")(", "(a"}) {
    EXPECT_FALSE(compile_text(pattern, "regex").ok()) << pattern;
  }
  EXPECT_TRUE(compile_text("a|b", "regex").ok());
  const auto boundary = compile_text("\\bfoo", "regex");
  ASSERT_FALSE(boundary.ok());
  EXPECT_NE(boundary.error().message.find("byte 1"), std::string::npos) << boundary.error().message;
}

}  // namespace
}  // namespace neuronmm::grammar
