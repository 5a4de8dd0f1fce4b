#include "serve/load/prompts.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo_tokenizer.h"
#include "text/utf8.h"

namespace neuronmm::load {
namespace {

int64_t length_of(const std::string& text) {
  const auto ids = demo_tokenizer().encode(text);
  EXPECT_TRUE(ids.ok());
  return std::ssize(*ids);
}

TEST(RandomPrompts, HaveTheirLengthInTokens) {
  for (const int64_t length : {1, 2, 17, 128, 1000}) {
    const auto prompts =
        random_prompts(demo_tokenizer(), {.count = 5, .prompt_tokens = length, .new_tokens = 9});
    ASSERT_TRUE(prompts.ok());
    ASSERT_EQ(prompts->size(), 5u);
    std::set<std::string> texts;
    for (const LoadPrompt& prompt : *prompts) {
      EXPECT_EQ(prompt.tokens, length_of(prompt.text));
      EXPECT_NEAR(static_cast<double>(prompt.tokens), static_cast<double>(length), 1.0);
      EXPECT_EQ(prompt.max_tokens, 9);
      EXPECT_EQ(text::valid_utf8_length(prompt.text), std::ssize(prompt.text));
      texts.insert(prompt.text);
    }
    EXPECT_TRUE(length <= 10 || texts.size() == 5);
  }
}

TEST(RandomPrompts, AreThoseOfTheirSeed) {
  const auto first_text = [](uint64_t seed) {
    return random_prompts(demo_tokenizer(), {.count = 1, .seed = seed})->front().text;
  };
  EXPECT_EQ(first_text(1), first_text(1));
  EXPECT_NE(first_text(1), first_text(2));
}

TEST(RandomPrompts, LengthsFillTheirRange) {
  const auto prompts = random_prompts(
      demo_tokenizer(), {.count = 300, .prompt_tokens = 20, .new_tokens = 10, .spread = 0.5});
  ASSERT_TRUE(prompts.ok());
  const auto [least, most] = std::ranges::minmax(*prompts, {}, &LoadPrompt::max_tokens);
  EXPECT_EQ(least.max_tokens, 5);
  EXPECT_EQ(most.max_tokens, 15);
  for (const LoadPrompt& prompt : *prompts) {
    EXPECT_GE(prompt.tokens, 9);
    EXPECT_LE(prompt.tokens, 31);
  }
}

TEST(RandomPrompts, MayBeginAlike) {
  const auto prompts =
      random_prompts(demo_tokenizer(), {.count = 3, .prompt_tokens = 8, .prefix_tokens = 100});
  ASSERT_TRUE(prompts.ok());
  const auto& [first, second, third] =
      std::tie((*prompts)[0].text, (*prompts)[1].text, (*prompts)[2].text);
  size_t common = 0;
  while (first[common] == second[common] && first[common] == third[common]) ++common;
  EXPECT_GT(length_of(first.substr(0, common)), 90);
  EXPECT_NEAR(static_cast<double>((*prompts)[0].tokens), 108.0, 3.0);
}

TEST(FilePrompts, AreLinesOfText) {
  const auto prompts = file_prompts("Once upon\r\n\n  \nThe end.\n", "f", demo_tokenizer(),
                                    {.count = 5, .new_tokens = 3});
  ASSERT_TRUE(prompts.ok());
  std::vector<std::string> texts;
  for (const LoadPrompt& prompt : *prompts) {
    texts.push_back(prompt.text);
    EXPECT_EQ(prompt.max_tokens, 3);
    EXPECT_EQ(prompt.tokens, length_of(prompt.text));
  }
  EXPECT_THAT(texts,
              testing::ElementsAre("Once upon", "The end.", "Once upon", "The end.", "Once upon"));
}

TEST(FilePrompts, AreJsonLines) {
  const auto prompts = file_prompts(
      "{\"prompt\": \"Once\", \"max_tokens\": 7}\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"Be.\"}, {\"role\": \"user\", "
      "\"content\": \"Hi\"}]}\n",
      "f", demo_tokenizer(), {.count = 2, .new_tokens = 3, .prefix_tokens = 5});
  ASSERT_TRUE(prompts.ok()) << prompts.error().message;
  const LoadPrompt &text = (*prompts)[0], &chat = (*prompts)[1];
  EXPECT_THAT(text.text, testing::EndsWith("Once"));
  EXPECT_EQ(text.max_tokens, 7);
  const std::string prefix = text.text.substr(0, text.text.size() - 4);
  EXPECT_FALSE(prefix.empty());
  EXPECT_EQ(chat.messages[0]["content"], prefix + "Be.");
  EXPECT_EQ(chat.messages[1]["content"], "Hi");
  EXPECT_EQ(chat.max_tokens, 3);
  EXPECT_EQ(chat.tokens, length_of(prefix + "Be.") + length_of("Hi"));
}

TEST(FilePrompts, ErrorsNameTheLine) {
  struct Case {
    const char *text, *message;
  };
  for (const Case& wrong : {
           Case{"", "expected prompts"},
           Case{"\n \n", "expected prompts"},
           Case{"{\"prompt\": \"a\"}\n{\"prompt\": 3}", "f:2: \"prompt\""},
           Case{"{\"prompt\": \"a\"}\nplain", "f:2"},
           Case{"{}", "f:1: expected either"},
           Case{"{\"prompt\": \"a\", \"messages\": []}", "f:1: expected either"},
           Case{"{\"prompt\": \"\"}", "f:1: the prompt is empty"},
           Case{"{\"messages\": 1}", "f:1: \"messages\""},
           Case{"{\"messages\": [1]}", "f:1: \"messages\""},
           Case{"{\"messages\": []}", "f:1: \"messages\" has no text"},
           Case{"{\"prompt\": \"a\", \"max_tokens\": 0}", "f:1: \"max_tokens\""},
       }) {
    const auto prompts = file_prompts(wrong.text, "f", demo_tokenizer(), {.count = 5});
    ASSERT_FALSE(prompts.ok()) << wrong.text;
    EXPECT_THAT(prompts.error().message, testing::HasSubstr(wrong.message));
  }
}

}  // namespace
}  // namespace neuronmm::load
