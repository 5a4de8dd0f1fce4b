// Tests the forms in which clients of OpenAI, vLLM and llama.cpp demand an output format.

#include "serve/requests/response_format.h"

#include <gtest/gtest.h>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

ResponseFormat read(const char* body) {
  const Json root = Json::parse(body);
  RequestProblem problem;
  const RequestTable table = {response_format_fields()};
  FieldReader fields(root, "", problem, &table);
  ResponseFormat format = read_response_format(fields);
  EXPECT_FALSE(problem.found()) << problem.error().message;
  return format;
}

TEST(ResponseFormats, SchemaIsReadEquallyFromEveryField) {
  for (
      const char* body : {
          R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "null"}}}})",
          R"({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "null"}}}})",
          R"({"response_format": {"type": "json_schema", "name": "n", "schema": {"type": "null"}}})",
          R"({"response_format": {"type": "json_object", "schema": {"type": "null"}}})",
          R"({"structured_outputs": {"json": {"type": "null"}}})",
          R"({"structured_outputs": {"json": "{\"type\": \"null\"}"}})",
          R"({"guided_json": {"type": "null"}})",
          R"({"json_schema": {"type": "null"}, "response_format": {"type": "text"}})",
      }) {
    const ResponseFormat format = read(body);
    EXPECT_EQ(format.kind, ResponseFormat::Kind::kJsonSchema) << body;
    EXPECT_EQ(format.schema.dump(), R"({"type":"null"})") << body;
  }
}

TEST(ResponseFormats, FieldsThatDemandAnyObject) {
  for (const char* body :
       {R"({"response_format": {"type": "json_object"}})",
        R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}})",
        R"({"structured_outputs": {"json_object": true}})"})
    EXPECT_EQ(read(body).kind, ResponseFormat::Kind::kJsonObject) << body;
}

TEST(ResponseFormats, FieldsThatAllowAnyText) {
  for (const char* body : {"{}", R"({"response_format": {"type": "text"}})",
                           R"({"structured_outputs": {"json_object": false, "grammar": null}})",
                           R"({"grammar": "", "json_schema": null})"})
    EXPECT_EQ(read(body).kind, ResponseFormat::Kind::kText) << body;
}

TEST(ResponseFormats, GrammarIsReadEquallyFromEveryField) {
  for (const char* body :
       {R"({"grammar": "root ::= [a]"})", R"({"guided_grammar": "root ::= [a]"})",
        R"({"ebnf": "root ::= [a]"})", R"({"structured_outputs": {"grammar": "root ::= [a]"}})"}) {
    const ResponseFormat format = read(body);
    EXPECT_EQ(format.kind, ResponseFormat::Kind::kGrammar) << body;
    EXPECT_EQ(format.pattern, "root ::= [a]") << body;
  }
}

TEST(ResponseFormats, PatternsAndChoicesBecomePatterns) {
  EXPECT_EQ(read(R"({"guided_regex": "a|b"})").pattern, "a|b");
  EXPECT_EQ(read(R"({"structured_outputs": {"regex": "a+"}})").param, "structured_outputs.regex");
  const ResponseFormat choice = read(R"x({"structured_outputs": {"choice": ["a.b", "(c|d)"]}})x");
  EXPECT_EQ(choice.kind, ResponseFormat::Kind::kPattern);
  EXPECT_EQ(choice.pattern, R"(a\.b|\(c\|d\))");
  EXPECT_EQ(choice.param, "structured_outputs.choice");
}

}  // namespace
}  // namespace neuronmm::serve
