// Tests the rules for thoughts: formats begin after them, and budgets end them.

#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

#include "serve/grammar/token_mask.h"
#include "serve/http/served_demo.h"
#include "serve/http/strict_calls_constraint.h"
#include "serve/http/thinking_constraint.h"
#include "serve/schema/schema_compiler.h"

namespace neuronmm::serve {
namespace {

// A constraint that allows only one token and then ends.
class OnlyToken : public model::TokenConstraint {
 public:
  explicit OnlyToken(text::TokenId token) : token_(token) {}
  void allowed_tokens(std::span<uint64_t> allowed) override {
    std::ranges::fill(allowed, 0);
    grammar::allow_token(allowed, token_);
  }
  void advance(text::TokenId token) override {
    EXPECT_EQ(token, token_);
    ended_ = true;
  }
  bool must_end() const override { return ended_; }

 private:
  const text::TokenId token_;
  bool ended_ = false;
};

ConstraintFactory only(text::TokenId token) {
  return [token] { return std::make_unique<OnlyToken>(token); };
}

uint64_t allowed(model::TokenConstraint& constraint) {
  uint64_t mask = 0;
  constraint.allowed_tokens({&mask, 1});
  return mask;
}

ThinkingRules rules_for(const grammar::TokenVocabulary& vocabulary, bool inside) {
  return {.begin = "<think>",
          .end = std::make_shared<const grammar::TextMark>("</think>", vocabulary),
          .inside = inside};
}

TEST(ThinkingConstraint, ThoughtsAreFreeTextAndTheConstraintAppliesAfterThem) {
  // The tokens are 0 <think>, 1 </think>, 2 free text, 3 the constrained answer, 4 white space, 5
  // the end.
  const grammar::TokenVocabulary vocabulary({"<think>", "</think>", "thought", "{}", "\n\n", ""},
                                            {5});
  const auto constraint =
      constrain_after_thoughts(only(3), vocabulary, rules_for(vocabulary, false));
  EXPECT_EQ(allowed(*constraint), 0b001001u);
  constraint->advance(0);
  EXPECT_EQ(allowed(*constraint), 0b011110u);
  constraint->advance(2);
  EXPECT_EQ(allowed(*constraint), 0b011110u);
  constraint->advance(1);
  EXPECT_EQ(allowed(*constraint), 0b011000u);
  constraint->advance(4);
  EXPECT_FALSE(constraint->must_end());
  constraint->advance(3);
  EXPECT_TRUE(constraint->must_end());
  EXPECT_EQ(allowed(*constraint), 0b001000u);
}

// Many models spell the marks with several tokens, which may also begin the answer.
TEST(ThinkingConstraint, MarksMayConsistOfSeveralTokens) {
  // The tokens are 0 "<", 1 "think>", 2 "</", 3 "text", 4 the answer, 5 "think>{", 6 the end.
  const grammar::TokenVocabulary vocabulary({"<", "think>", "</", "text", "{}", "think>{", ""},
                                            {6});
  const auto constraint =
      constrain_after_thoughts(only(0), vocabulary, rules_for(vocabulary, false));
  EXPECT_EQ(allowed(*constraint), 0b0000001u);  // the mark and the answer begin alike
  constraint->advance(0);
  EXPECT_EQ(allowed(*constraint), 0b0000011u);
  constraint->advance(1);
  EXPECT_EQ(allowed(*constraint), 0b0111111u);
  constraint->advance(3);
  constraint->advance(2);
  EXPECT_EQ(allowed(*constraint), 0b0011111u);  // token 5 would go beyond the mark
  constraint->advance(1);
  EXPECT_EQ(allowed(*constraint), 0b0000001u);
  constraint->advance(0);
  EXPECT_TRUE(constraint->must_end());
}

TEST(ThinkingConstraint, AnswersMayBeginLikeTheMark) {
  const grammar::TokenVocabulary vocabulary({"<", "think>", "</", "text", ""}, {4});
  const auto constraint =
      constrain_after_thoughts(only(0), vocabulary, rules_for(vocabulary, false));
  EXPECT_EQ(allowed(*constraint), 0b00001u);
  constraint->advance(0);
  EXPECT_FALSE(constraint->must_end());  // <think> may still follow
  constraint->advance(1);
  EXPECT_EQ(allowed(*constraint) & 0b01000u, 0b01000u);
}

TEST(ThinkingConstraint, BudgetEndsThoughtsAfterAWholeCharacter) {
  // The tokens are 0 "</", 1 "think>", 2 the first byte of a character of two, 3 its second byte, 4
  // text, 5 the answer, 6 the end.
  const grammar::TokenVocabulary vocabulary({"</", "think>", "\xC3", "\xA9", "text", "{}", ""},
                                            {6});
  for (const bool constrained : {true, false}) {
    ThinkingRules rules = rules_for(vocabulary, true);
    rules.budget = 2;
    rules.end_tokens = {0, 1};
    const auto constraint =
        constrain_after_thoughts(constrained ? only(5) : ConstraintFactory(), vocabulary, rules);
    constraint->advance(4);
    EXPECT_GT(std::popcount(allowed(*constraint)), 1);
    constraint->advance(2);
    EXPECT_GT(std::popcount(allowed(*constraint)), 1);
    constraint->advance(3);
    EXPECT_EQ(allowed(*constraint), 0b0000001u);
    constraint->advance(0);
    EXPECT_EQ(allowed(*constraint), 0b0000010u);
    constraint->advance(1);
    if (constrained) {
      EXPECT_EQ(allowed(*constraint), 0b0100000u);
      constraint->advance(5);
      EXPECT_TRUE(constraint->must_end());
    } else {
      EXPECT_EQ(allowed(*constraint), ~uint64_t{0});
    }
  }
}

TEST(ThinkingConstraint, BudgetOfNothingClosesAtOnce) {
  const grammar::TokenVocabulary vocabulary({"<think>", "</think>", "text", ""}, {3});
  ThinkingRules rules = rules_for(vocabulary, false);
  rules.budget = 0;
  rules.end_tokens = {1};
  const auto constraint = constrain_after_thoughts({}, vocabulary, rules);
  EXPECT_EQ(allowed(*constraint), ~uint64_t{0});
  constraint->advance(0);
  EXPECT_EQ(allowed(*constraint), 0b0010u);
  constraint->advance(1);
  EXPECT_EQ(allowed(*constraint), ~uint64_t{0});
  const auto without_thoughts = constrain_after_thoughts({}, vocabulary, rules);
  without_thoughts->advance(2);
  without_thoughts->advance(2);
  EXPECT_EQ(allowed(*without_thoughts), ~uint64_t{0});
}

TEST(StrictCalls, AreHeldToTheirFormatAndTheRestIsFree) {
  // The tokens are 0 "<tool", 1 "_call>", 2 "_call>{", 3 text, 4 the call, 5 the end.
  const grammar::TokenVocabulary vocabulary({"<tool", "_call>", "_call>{", "text", "call", ""},
                                            {5});
  const auto mark = std::make_shared<const grammar::TextMark>("<tool_call>", vocabulary);
  const auto constraint = constrain_calls(
      {.make_call = only(4), .mark = mark, .marker = {.text = "<tool_call>"}}, vocabulary);
  for (int call = 0; call < 2; ++call) {
    constraint->advance(3);
    EXPECT_EQ(allowed(*constraint), ~uint64_t{0});
    constraint->advance(0);
    EXPECT_EQ(allowed(*constraint), ~uint64_t{0b100});
    constraint->advance(1);
    EXPECT_EQ(allowed(*constraint), 0b010000u);
    constraint->advance(4);
    EXPECT_FALSE(constraint->must_end());
  }
}

// JSON in the middle of an answer is no call of a model that marks calls by their place.
TEST(StrictCalls, CountOnlyAtTheBeginningIfTheMarkerLeads) {
  const grammar::TokenVocabulary vocabulary({"{\"name\": \"", "call", "; ", "text", "<tag>", ""},
                                            {5});
  const CallMarker marker{.text = "{\"name\": \"", .leads = true, .before = "<tag>"};
  const auto mark = std::make_shared<const grammar::TextMark>(marker.text, vocabulary);
  const auto constraint =
      constrain_calls({.make_call = only(1), .mark = mark, .marker = marker}, vocabulary);
  for (const text::TokenId token : {4, 0}) constraint->advance(token);
  EXPECT_EQ(allowed(*constraint), 0b000010u);
  for (const text::TokenId token : {1, 2, 0}) constraint->advance(token);
  EXPECT_EQ(allowed(*constraint), 0b000010u);
  for (const text::TokenId token : {1, 3, 0}) constraint->advance(token);
  EXPECT_EQ(allowed(*constraint), ~uint64_t{0});
}

// Returns a constraint of calls without a marker. The only function takes {"a": 1}.
std::unique_ptr<model::TokenConstraint> bare_calls(const grammar::TokenVocabulary& vocabulary) {
  const auto compiled = grammar::compile_text(
      R"(\{"name": "f", "arguments": \{"a": 1\}\}|\{\n  "name": "f",\n  "arguments": \{"a": 1\}\n\})",
      "pattern");
  const auto masks = grammar::TokenMasks::make(
      *compiled, std::shared_ptr<const grammar::TokenVocabulary>(
                     &vocabulary, [](const grammar::TokenVocabulary*) {}));
  return constrain_calls(
      {.make_call = only(0),
       .mark = std::make_shared<const grammar::TextMark>("<tool_call>", vocabulary),
       .marker = {.text = "<tool_call>"},
       .bare_call = *masks},
      vocabulary);
}

// Small models forget the marker. The name tells a call from other JSON.
TEST(StrictCalls, WithoutAMarkerAreHeldToTheirFormat) {
  std::vector<std::string> bytes = {""};
  for (int byte = 1; byte < 128; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  const grammar::TokenVocabulary vocabulary(bytes, {0});
  const auto is_held_after = [&](const std::string& text) {
    const auto constraint = bare_calls(vocabulary);
    for (const char c : text) constraint->advance(c);
    uint64_t mask[2];
    constraint->allowed_tokens(mask);
    return (mask[0] & mask[1]) != ~uint64_t{0};
  };
  for (const char* text :
       {R"({"name": "f")", "```json\n{\n  \"name\": \"f\"", "I call:\n\n{\"name\": \"f\", ",
        R"([{"name": "f")", R"({"name": "f", "arguments": {"a": 1}},
 {"name": "f")"})
    EXPECT_TRUE(is_held_after(text)) << text;
  for (const char* text :
       {R"({"name": ")", R"({"name": "Ann")", R"({"age": 3, "name": "f")", R"(Write {"name": "f")",
        R"({"name":  "f")", R"({"name": "f", "arguments": {"a": 1}})", R"({"a": {"name": "f")"})
    EXPECT_FALSE(is_held_after(text)) << text;
}

// Returns a chat whose template opens thoughts, and whose answer must be an object.
TestJson thinking_chat() {
  return {
      {"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
      {"max_tokens", 80},
      {"temperature", 1},
      {"reasoning_budget", 5},
      {"chat_template_kwargs", {{"opens_thoughts", true}}},
      {"response_format",
       {{"type", "json_schema"},
        {"json_schema",
         {{"name", "s"},
          {"schema", TestJson::parse(R"({"type": "object", "properties": {"a": {"enum": [1, 2]}},
                                   "required": ["a"]})")}}}}}};
}

// The tokenizer has no token for </think>, so the mark is spelled.
TEST_F(HttpTest, FormatsBeginAfterThoughtsThatTheTemplateOpens) {
  start();
  HttpClient client(port());
  TestJson body = thinking_chat();
  for (int seed = 0; seed < 5; ++seed) {
    body["seed"] = seed;
    const TestJson answer = TestJson::parse(client.post("/v1/chat/completions", body.dump()).body);
    const TestJson& message = answer["choices"][0]["message"];
    const TestJson content =
        TestJson::parse(message.value("content", std::string()), nullptr, false);
    EXPECT_TRUE(content == TestJson({{"a", 1}}) || content == TestJson({{"a", 2}})) << answer;
    EXPECT_FALSE(message.value("reasoning_content", std::string()).empty()) << answer;
  }
}

TEST_F(HttpTest, BudgetsEndThoughtsWithoutAFormat) {
  start();
  HttpClient client(port());
  TestJson body = thinking_chat();
  body.erase("response_format");
  body["ignore_eos"] = true;  // so that the answer is never empty
  for (const int budget : {0, 5}) {
    body["reasoning_budget"] = budget;
    const TestJson answer = TestJson::parse(client.post("/v1/chat/completions", body.dump()).body);
    const TestJson& message = answer["choices"][0]["message"];
    EXPECT_EQ(message.contains("reasoning_content"), budget > 0) << answer;
    EXPECT_FALSE(message["content"].get<std::string>().empty()) << answer;
  }
}

}  // namespace
}  // namespace neuronmm::serve
