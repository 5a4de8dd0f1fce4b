// Tests parsing and writing of the JSON in requests, the error objects of the APIs, and
// JsonScanner.

#include "serve/requests/json_body.h"

#include <chrono>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "serve/output/json_scanner.h"

namespace neuronmm::serve {
namespace {

std::string error_of(const std::string& text) {
  const auto value = parse_body(text);
  if (value.ok()) return "none";
  EXPECT_EQ(value.error().status, 400);
  EXPECT_EQ(value.error().type, "invalid_request_error");
  return value.error().message;
}

TEST(JsonBody, KeepsTheOrderOfKeys) {
  const auto value = parse_body(R"({"z": 1, "a": {"y": [1, 2.5, "x", null, true], "b": {}}})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(dump_json(*value), R"({"z":1,"a":{"y":[1,2.5,"x",null,true],"b":{}}})");
}

TEST(JsonBody, RefusesMalformedJson) {
  EXPECT_NE(error_of("").find("malformed JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": 1,}").find("malformed JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": 1} x").find("malformed JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": \"\xFF\"}").find("UTF-8"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": 1e999}").find("malformed JSON"), std::string::npos);
  EXPECT_NE(error_of(R"({"a": {"b": 1, "c": 2, "b": 3}})").find("\"b\" occurs twice"),
            std::string::npos);
  EXPECT_EQ(error_of("[1]"), "body: expected a JSON object, found an array of 1");
  EXPECT_EQ(error_of(R"("text")"), R"(body: expected a JSON object, found "text")");
}

TEST(JsonBody, TurnsLoneSurrogatesIntoReplacementCharacters) {
  const auto text_of = [](const std::string& json) {
    const auto value = parse_body(R"({"a": ")" + json + R"("})");
    return value.ok() ? value->at("a").get<std::string>() : value.error().message;
  };
  const std::string replaced = "\xEF\xBF\xBD", smile = "\xF0\x9F\x98\x80";
  EXPECT_EQ(text_of(R"(\ud83d\ude00)"), smile);
  EXPECT_EQ(text_of(R"(\uD83D)"), replaced);
  EXPECT_EQ(text_of(R"(x\ude00y)"), "x" + replaced + "y");
  EXPECT_EQ(text_of(R"(\ud83d\ud83d\ude00\ude00)"), replaced + smile + replaced);
  EXPECT_EQ(text_of(R"(\ud83d\n)"), replaced + "\n");
  EXPECT_EQ(text_of(R"(\ud83dude00)"), replaced + "ude00");
  EXPECT_EQ(text_of(R"(\\ud83d)"), "\\ud83d");  // an escaped backslash
  EXPECT_EQ(text_of(R"(\\\ud83d)"), "\\" + replaced);
  EXPECT_NE(text_of(R"(\ud83)").find("malformed JSON"), std::string::npos);
  EXPECT_NE(text_of(R"(\ud83d\)").find("malformed JSON"), std::string::npos);
  const auto keys = parse_body(R"({"\udc00": 1})");
  ASSERT_TRUE(keys.ok());
  EXPECT_TRUE(keys->contains(replaced));
}

// Compares with a version that decodes each text by hand.
TEST(JsonBody, ReplacesExactlyTheLoneSurrogates) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::vector<std::string> parts = {"\\ud800", "\\uDBFF", "\\udc00", "\\uDfff",
                                          "\\u0041", "\\\\",    "\\\"",    "ud800"};
  const std::vector<std::string> meanings = {"", "", "", "", "A", "\\", "\"", "ud800"};
  for (int round = 0; round < 3000; ++round) {
    std::string json, expected;
    std::optional<size_t> high;  // the part before, if it is the first half of a pair
    for (auto left = random() % 8; left > 0; --left) {
      const size_t part = random() % parts.size();
      json += parts[part];
      const bool pair = high && (part == 2 || part == 3);
      if (high && !pair) expected += "\xEF\xBF\xBD";
      if (pair)
        expected += *high == 0 ? (part == 2 ? "\xF0\x90\x80\x80" : "\xF0\x90\x8F\xBF")
                               : (part == 2 ? "\xF4\x8F\xB0\x80" : "\xF4\x8F\xBF\xBF");
      else if (part == 2 || part == 3)
        expected += "\xEF\xBF\xBD";
      expected += meanings[part];
      high = part < 2 ? std::optional(part) : std::nullopt;
    }
    if (high) expected += "\xEF\xBF\xBD";
    const auto value = parse_body(R"({"a": ")" + json + R"("})");
    ASSERT_TRUE(value.ok()) << json << value.error().message;
    ASSERT_EQ(value->at("a"), expected) << json;
  }
}

TEST(JsonBody, RefusesDeepNesting) {
  const auto nested = [](int depth) {
    const auto times = static_cast<size_t>(depth - 1);
    return "{\"a\":" + std::string(times, '[') + std::string(times, ']') + "}";
  };
  EXPECT_EQ(error_of(nested(100)), "none");
  EXPECT_NE(error_of(nested(101)).find("nested deeper than 100"), std::string::npos);
  EXPECT_NE(error_of(std::string(1 << 20, '[')).find("nested deeper"), std::string::npos);
}

// Reading this object would take minutes if each key were compared with all keys before it.
TEST(JsonBody, ParsesManyKeysInTime) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("\"k{}\":0,", i);
  text += "\"end\":0}";
  const auto begin = std::chrono::steady_clock::now();
  const auto value = parse_body(text);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->size(), 300'001u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(JsonBody, WritesInvalidUtf8AsReplacementCharacters) {
  EXPECT_EQ(dump_json({{"text", "a\xFFz\n"}}), "{\"text\":\"a\xEF\xBF\xBDz\\n\"}");
}

TEST(ApiErrors, HaveOpenAIsFormat) {
  EXPECT_EQ(openai_error_json(invalid_request("top_p", "top_p: expected a number")),
            R"({"error":{"message":"top_p: expected a number","type":"invalid_request_error",)"
            R"("param":"top_p","code":null}})");
  EXPECT_EQ(invalid_api_key().status, 401);
  EXPECT_EQ(invalid_api_key().code, "invalid_api_key");
  EXPECT_EQ(model_not_found("x").status, 404);
  EXPECT_EQ(model_not_found("x").code, "model_not_found");
  EXPECT_EQ(body_too_large(10).status, 413);
  EXPECT_EQ(unavailable("loading", "m").status, 503);
  const ApiError full = refusal_error(Refusal::kQueueFull, "full", "prompt", 3);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.retry_after_s, 3);
  EXPECT_EQ(refusal_error(Refusal::kInvalid, "m", "prompt", 1).status, 400);
  EXPECT_EQ(refusal_error(Refusal::kContextLength, "m", "prompt", 1).code,
            "context_length_exceeded");
  EXPECT_EQ(refusal_error(Refusal::kNeverFits, "m", "prompt", 1).status, 400);
  EXPECT_EQ(refusal_error(Refusal::kStopping, "m", "prompt", 1).code, "draining");
  // Clients search for these words.
  EXPECT_NE(
      prompt_too_long("prompt", 5000, 4096).message.find("maximum context length is 4096 tokens"),
      std::string::npos);
}

// Returns whether the scanner accepts exactly this text as one value.
bool scans(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.push(text[i]);
    if (step == JsonScanner::Step::kInvalid) return false;
    if (step == JsonScanner::Step::kEnd) return i + 1 == text.size();
    if (step == JsonScanner::Step::kEndBefore) return i == text.size() - 1;
  }
  return false;
}

// The test compares the scanner with nlohmann's parser. It uses objects and arrays, because their
// end is certain.
TEST(JsonScanner, AgreesWithAParser) {
  const std::string letters = "{}[]\",:0-1.e+tfn \\ua\n";
  std::mt19937 random(11);
  const std::vector<std::string> seeds = {R"({"a": [1, -2.5e+3, "x\u00e9\n", {}], "b": true})",
                                          R"([[], {"": null}, "", false, 0])"};
  int valid = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seeds[random() % seeds.size()];
    for (int edits = static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0)
        text.erase(at, 1);
      else
        text.insert(at, 1, letters[random() % letters.size()]);
    }
    if (text.find('\n') != std::string::npos)
      continue;  // the scanner accepts line feeds inside strings
    if (text[0] != '{' && text[0] != '[') continue;
    const bool accepted = Json::accept(text) && text.back() != ' ';
    valid += accepted ? 1 : 0;
    EXPECT_EQ(scans(text), accepted) << text;
  }
  EXPECT_GT(valid, 1000);
}

TEST(JsonBody, ZeroByteDoesNotEndTheText) {
  const std::string text = "{}";
  EXPECT_TRUE(parse_body(text).ok());
  EXPECT_FALSE(parse_body(text + '\0').ok());
  EXPECT_FALSE(parse_body(text + '\0' + "{\"n\": 5}").ok());
}

TEST(JsonBody, WholeNumbersMayHaveAFractionOrAnExponent) {
  EXPECT_EQ(as_integer(Json::parse("16.0")), 16);
  EXPECT_EQ(as_integer(Json::parse("1.6e1")), 16);
  EXPECT_EQ(as_integer(Json::parse("-9223372036854775808")), INT64_MIN);
  for (const char* text : {"1.5", "1e300", "9223372036854775808", "true", "\"1\"", "null"})
    EXPECT_FALSE(as_integer(Json::parse(text))) << text;
}

// Otherwise a schema would hold answers to another number than its author meant.
TEST(JsonBody, NumbersOfSchemasAreExactOrRefused) {
  const auto of_format = [](const std::string& number, const char* keyword = "const") {
    return error_of(R"({"response_format": {"schema": {"anyOf": [{}, {")" + std::string(keyword) +
                    "\": " + number + "}]}}}");
  };
  EXPECT_EQ(
      of_format("18446744073709551616"),
      "response_format.schema.anyOf[1].const: expected a whole number of 64 bits, or one that "
      "a double has all digits of, found 18446744073709551616");
  EXPECT_NE(of_format("[1, {\"a\": -18446744073709551615}]", "enum").find("enum[1].a: "),
            std::string::npos);
  for (const char* number : {"18446744073709551615", "-9223372036854775808",
                             "1000000000000000000000000000000", "1e30", "0.12345678901234567890"})
    EXPECT_EQ(of_format(number), "none") << number;
  EXPECT_EQ(of_format("18446744073709551616", "default"), "none");
  EXPECT_EQ(error_of(R"({"messages": [{"const": 18446744073709551616}]})"), "none");
  EXPECT_LT(of_format(std::string(300, '7')).size(), 250u);
  const auto text =
      parse_json_text(R"({"maximum": 36893488147419103233})", "guided_json", JsonOf::kSchema);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().param, "guided_json");
  EXPECT_NE(text.error().message.find("guided_json: maximum: "), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::serve
