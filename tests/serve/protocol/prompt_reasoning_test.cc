// Tests which thoughts a prompt opens, and that formats and budgets take account of them.

#include "serve/protocol/prompt_reasoning.h"

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

// Returns a template that ends prompts with `end`.
std::string template_ending(const std::string& end, const std::string& mention = "") {
  return "{# " + mention +
         " #}{% for m in messages %}|{{ m.role }}|{{ m.content }}{% endfor %}"
         "{% if add_generation_prompt %}|assistant|" +
         end + "{% endif %}";
}

StructuredOutput output_of(const std::string& source, Json body) {
  const ServedFolder folder(source);
  body["messages"] = chat_body()["messages"];
  body["response_format"] = {{"type", "json_object"}};
  return exchange(folder.model, body, {says("")}).structured_output;
}

TEST(PromptReasoning, IsOpenedByTheEndOfThePrompt) {
  for (const ReasoningTags& tags : known_reasoning_tags()) {
    for (const std::string after : {"", "\n", "\nOkay, "}) {
      const StructuredOutput output = output_of(template_ending(tags.begin + after), {});
      EXPECT_EQ(output.thinking, Thinking::kOpened) << tags.begin;
      EXPECT_EQ(output.reasoning_tags, tags);
    }
    EXPECT_EQ(output_of(template_ending(tags.begin + "\n\n" + tags.end + "\n\n"), {}).thinking,
              Thinking::kNone);
    const StructuredOutput may = output_of(template_ending("", tags.end), {});
    EXPECT_EQ(may.thinking, Thinking::kOptional);
    EXPECT_EQ(may.reasoning_tags, tags);
  }
  EXPECT_EQ(output_of(template_ending(""), {}).thinking, Thinking::kNone);
}

TEST(PromptReasoning, IsNotOpenedByAMessage) {
  const ServedFolder folder("{% for m in messages %}|{{ m.content }}{% endfor %}");
  Json body = chat_body();
  body["messages"][0]["content"] = "<think>";
  EXPECT_EQ(exchange(folder.model, body, {says("x")}).body()["choices"][0]["message"]["content"],
            "x");
}

TEST(PromptReasoning, HasTheMarksOfTheTemplateInAnswers) {
  const ServedFolder folder(template_ending("[THINK]", "[/THINK]"));
  const Json message = exchange(folder.model, chat_body(), {says("Hm.[/THINK]Yes.")})
                           .body()["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  EXPECT_EQ(message["content"], "Yes.");
}

TEST(ReasoningBudget, HasTheNamesOfAllServers) {
  const std::string source = template_ending("<think>\n");
  for (const char* name : {"reasoning_budget", "thinking_token_budget", "reasoning_budget_tokens",
                           "thinking_budget_tokens"}) {
    EXPECT_EQ(output_of(source, {{name, 7}}).reasoning_budget, 7);
    EXPECT_EQ(output_of(source, {{name, 0}}).reasoning_budget, 0);
    EXPECT_FALSE(output_of(source, {{name, -1}}).reasoning_budget);
    EXPECT_FALSE(output_of(source, {{name, nullptr}}).reasoning_budget);
    const ServedFolder folder(source);
    for (const Json& wrong : {Json(-2), Json("7"), Json(1.5)}) {
      Json body = chat_body();
      body[name] = wrong;
      const auto error = exchange(folder.model, body, {}).error;
      ASSERT_TRUE(error) << wrong;
      EXPECT_EQ(error->param, name);
    }
  }
  EXPECT_FALSE(output_of(source, Json::object()).reasoning_budget);
}

TEST(ReasoningBudget, OfTwoNamesMustBeTheSame) {
  const ServedFolder folder;
  Json body = chat_body();
  body["reasoning_budget"] = 5;
  body["thinking_token_budget"] = 5;
  EXPECT_FALSE(exchange(folder.model, body, {says("")}).error);
  body["thinking_token_budget"] = 6;
  EXPECT_EQ(exchange(folder.model, body, {}).error->param, "thinking_token_budget");
}

TEST(ReasoningBudget, IsPartOfEachApi) {
  const ServedFolder folder(template_ending("<think>\n"));
  Json anthropic = chat_body();
  anthropic["max_tokens"] = 10;
  anthropic["thinking"] = {{"type", "enabled"}, {"budget_tokens", 1024}};
  const auto budget = [&](decltype(&prepare_anthropic) prepare, const Json& body) {
    return exchange_by(prepare, folder.model, body, {says("")}).structured_output.reasoning_budget;
  };
  EXPECT_EQ(budget(prepare_anthropic, anthropic), 1024);
  anthropic["thinking"] = {{"type", "disabled"}, {"budget_tokens", 1024}};
  EXPECT_FALSE(budget(prepare_anthropic, anthropic));
  const Json responses = {{"input", "Hi"}, {"reasoning", {{"effort", "low"}, {"max_tokens", 9}}}};
  EXPECT_EQ(budget(prepare_responses_api, responses), 9);
  EXPECT_EQ(budget(prepare_responses_api, {{"input", "Hi"}, {"reasoning_budget", 3}}), 3);
}

// Templates know a budget as a variable, or only whether there are thoughts.
TEST(ReasoningBudget, IsAVariableOfTheTemplate) {
  const ServedFolder folder(
      "{% for m in messages %}{{ m.content }}{% endfor %}|{{ enable_thinking }}|"
      "{{ thinking_budget }}|");
  const auto prompt = [&](Json body) {
    body["messages"] = chat_body()["messages"];
    return Json::parse(*apply_template_response(folder.model, body.dump()))["prompt"];
  };
  EXPECT_EQ(prompt({{"reasoning_budget", 0}}), "Hi|False|0|");
  EXPECT_EQ(prompt({{"reasoning_budget", 5}}), "Hi||5|");
  EXPECT_EQ(prompt({{"reasoning_budget", -1}}), "Hi|||");
  EXPECT_EQ(
      prompt({{"reasoning_budget", 0}, {"chat_template_kwargs", {{"enable_thinking", true}}}}),
      "Hi|True|0|");
}

}  // namespace
}  // namespace neuronmm::serve
