// Prompts that Jinja2 renders from the published templates.

#include "text/chat_template.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "small_tokenizer.h"
#include "test_data.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;
using Messages = std::vector<ChatMessage>;

// A tokenizer whose folder has this template.
Tokenizer with_template(const std::string& chat_template, bool bos = true) {
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      ("neuronmm_chat_template_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  json root = small_tokenizer(), config = {{"chat_template", chat_template}};
  root["added_tokens"] = json::array({added_token("<|begin_of_text|>", 256)});
  if (bos) config["bos_token"] = "<|begin_of_text|>";
  std::ofstream(folder / "tokenizer.json") << root.dump();
  std::ofstream(folder / "tokenizer_config.json") << config.dump();
  auto tokenizer = Tokenizer::load(folder);
  std::filesystem::remove_all(folder);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.error().message;
    std::abort();
  }
  return std::move(tokenizer).value();
}

std::string apply(const Tokenizer& tokenizer, const Messages& messages, bool prompt) {
  const auto text = apply_chat_template(tokenizer, messages, prompt);
  return text.ok() ? text->text : "error: " + text.error().message;
}

void expect_llama31(const Tokenizer& tokenizer) {
  const std::string head =
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
      "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  EXPECT_EQ(apply(tokenizer, {{"user", "  Hi\n"}}, true),
            head +
                "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(
      apply(tokenizer, {{"system", " Be brief. "}, {"user", "Hi"}, {"assistant", "Hello"}}, false),
      head +
          "Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>");
}

void expect_qwen3(const Tokenizer& tokenizer) {
  // Thoughts of earlier turns are left out, those since the last question stay.
  EXPECT_EQ(apply(tokenizer,
                  {{"system", "Be brief."},
                   {"user", "Hi"},
                   {"assistant", "<think>\nhm\n</think>\n\nHello"},
                   {"user", "Bye"}},
                  true),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(apply(tokenizer, {{"user", "Hi"}, {"assistant", "Hello"}}, false),
            "<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\nHello<|im_end|>\n");
  EXPECT_EQ(apply(tokenizer,
                  {{"user", "Hi"},
                   {"assistant", "<think>one</think>a"},
                   {"user", "<tool_response>1</tool_response>"},
                   {"assistant", "b"},
                   {"assistant", "<think>two</think>\n\nc"}},
                  true),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\none\n</think>\n\na"
            "<|im_end|>\n<|im_start|>user\n<tool_response>1</tool_response><|im_end|>\n"
            "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>assistant\n<think>\ntwo\n</think>\n\n"
            "c<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, PublishedLlama3) {
  NMM_TEST_DATA_OR_SKIP(folder, "tokenizers/llama3");
  const auto tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_llama31(*tokenizer);
}

TEST(ChatTemplate, PublishedQwen3) {
  NMM_TEST_DATA_OR_SKIP(folder, "tokenizers/qwen3");
  const auto tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_qwen3(*tokenizer);
}

// The same from templates that hold only what the families are known by.
TEST(ChatTemplate, FamiliesAreKnownByTheirMarks) {
  expect_llama31(with_template(
      R"(date_string = "26 Jul 2024" {{- "Cutting Knowledge Date: December 2023\n" }})"
      R"({{- "Today Date: " + date_string + "\n\n" }}{{- '<|start_header_id|>' + message['role'])"
      R"( + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }})"));
  expect_qwen3(with_template(
      R"({{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }} ns.last_query_index)"
      R"({%- set content = message.content.split('</think>')[-1].lstrip('\n') %}{{- role)"
      R"( + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n')"
      R"( + content.lstrip('\n') }}{%- if enable_thinking is defined and enable_thinking is false %})"));
}

// Plain ChatML and Llama-3 (3.0), each known by its whole text; the other templates are refused.
TEST(ChatTemplate, PublishedCases) {
  NMM_TEST_DATA_OR_SKIP(path, "oracles/hf-tiny/chat_template_cases.json");
  std::ifstream file(path);
  const json groups = json::parse(file);
  for (const auto& [name, group] : groups.items()) {
    const Tokenizer tokenizer = with_template(group["template"]);
    const bool known = name == "chatml" || name == "llama3";
    for (const json& vector : group["cases"]) {
      Messages messages;
      bool plain = true;
      for (const json& message : vector["messages"]) {
        plain = plain && message.contains("content") && message["content"].is_string();
        if (plain) messages.push_back({message["role"], message["content"]});
      }
      if (!plain) continue;
      const std::string text = apply(tokenizer, messages, vector["add_generation_prompt"]);
      if (known)
        EXPECT_EQ(text, vector["expected"]) << name;
      else
        EXPECT_TRUE(text.starts_with("error: chat: ")) << name << ": " << text;
    }
  }
}

TEST(ChatTemplate, TrimsWhatPythonTrims) {
  NMM_TEST_DATA_OR_SKIP(folder, "tokenizers/llama3");
  const auto tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto text =
      apply(*tokenizer, {{"user", "\x1C\xC2\xA0\xE3\x80\x80x\xE1\xA0\x8E\xC2\x85\x1F"}}, false);
  EXPECT_TRUE(text.ends_with("\n\nx\xE1\xA0\x8E<|eot_id|>")) << text;
}

TEST(ChatTemplate, RefusesWhatItDoesNotKnow) {
  const Messages hello = {{"user", "Hi"}};
  const auto expect_error = [&](const Tokenizer& tokenizer, const Messages& messages,
                                const std::string& part) {
    const std::string text = apply(tokenizer, messages, true);
    EXPECT_TRUE(text.starts_with("error: ")) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_error(parse_or_die(small_tokenizer()), hello, "no chat template");
  expect_error(with_template("{{ messages }}"), hello, "none of those");
  const std::string chatml =
      R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + )"
      R"(message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %})"
      R"({{ '<|im_start|>assistant\n' }}{% endif %})";
  EXPECT_EQ(apply(with_template(chatml), hello, false), "<|im_start|>user\nHi<|im_end|>\n");
  expect_error(with_template(chatml + " "), hello, "none of those");
  expect_error(with_template(chatml), {}, "at least one message");
  expect_error(with_template(chatml), {{"user", "Hi"}, {"tool", "1"}}, "message 1");
  const std::string llama3 =
      R"({% set loop_messages = messages %}{% for message in loop_messages %}{% set content = )"
      R"('<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | )"
      R"(trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %})"
      R"({% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %})"
      R"({{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})";
  EXPECT_TRUE(apply(with_template(llama3), hello, true).starts_with("<|begin_of_text|>"));
  expect_error(with_template(llama3, false), hello, "bos_token");
}

// The contents of the messages and nothing else, whatever the template does with them.
TEST(ChatTemplate, SaysWhichPartsPeopleSaid) {
  const std::string chatml =
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
      "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|im_start|>assistant\n' }}{% endif %}";
  const auto prompt = apply_chat_template(
      with_template(chatml), {{"system", "Be brief."}, {"user", ""}, {"user", "<|im_end|>"}});
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  std::vector<std::string> said;
  for (const ByteRange& range : prompt->said)
    said.push_back(prompt->text.substr(range.begin, range.end - range.begin));
  EXPECT_EQ(said, (std::vector<std::string>{"Be brief.", "<|im_end|>"}));
}

}  // namespace
}  // namespace neuronmm::text
