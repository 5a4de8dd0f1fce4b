// Tests the prompts of whole conversations, which must be those of transformers.

#include "text/chat_template.h"

#include <fstream>

#include <gtest/gtest.h>

#include "test_data.h"

namespace neuronmm::text {
namespace {

using Json = nlohmann::ordered_json;

// Shows roles and contents between bars. A message without content is shown as a whole.
const std::string kBars =
    "{{ bos_token }}{% for m in messages %}|{{ m.role }}|{{ m.content | trim if m.content is "
    "defined else m }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}|assistant|{% endif "
    "%}";

TokenizerConfig config_of(const std::string& source) {
  TokenizerConfig config;
  config.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  config.chat_templates["default"] = source;
  return config;
}

Conversation conversation_of(const std::string& json) {
  auto conversation = parse_conversation(json, "test");
  EXPECT_TRUE(conversation.ok()) << conversation.error().message;
  return conversation.ok() ? *conversation : Conversation();
}

std::string prompt_of(const TokenizerConfig& config, const std::string& json) {
  const auto prompt = apply_chat_template(config, conversation_of(json), 0);
  return prompt.ok() ? prompt->text : "error: " + prompt.error().message;
}

TEST(ChatTemplate, PublishedTemplatesRenderLikeTransformers) {
  NMM_TEST_DATA_OR_SKIP(path, "oracles/hf-tiny/chat_template_cases.json");
  std::ifstream file(path);
  const Json groups = Json::parse(file);
  int compared = 0;
  for (const auto& [name, group] : groups.items()) {
    TokenizerConfig config = config_of(group["template"]);
    if (name == "llama3") config.special_tokens["bos_token"] = "<|begin_of_text|>";
    if (name == "gemma") config.special_tokens["bos_token"] = "<bos>";
    if (name == "phi3") config.special_tokens["eos_token"] = "<|endoftext|>";
    if (name == "deepseek") {
      config.special_tokens = {{"bos_token", "<｜begin▁of▁sentence｜>"},
                               {"eos_token", "<｜end▁of▁sentence｜>"}};
    }
    for (const Json& vector : group["cases"]) {
      Conversation conversation;
      conversation.messages = vector["messages"];
      conversation.add_generation_prompt = vector["add_generation_prompt"];
      const Json effort = vector.value("reasoning_effort", Json());
      if (effort == "off")
        conversation.template_kwargs["enable_thinking"] = false;
      else if (effort.is_string())
        conversation.template_kwargs["reasoning_effort"] = effort;
      const auto prompt = apply_chat_template(config, conversation, 0);
      ++compared;
      if (vector.value("raises", false)) {
        EXPECT_FALSE(prompt.ok()) << name << vector;
      } else {
        ASSERT_TRUE(prompt.ok()) << name << ": " << prompt.error().message << vector;
        EXPECT_EQ(prompt->text, vector["expected"].get<std::string>()) << name;
      }
    }
  }
  EXPECT_GT(compared, 50);
}

TEST(ChatTemplate, TheTextOfMessagesIsMarked) {
  const auto prompt = apply_chat_template(
      config_of(kBars),
      conversation_of(R"([{"role": "system", "content": " Be brief. "}, {"role": "user", "content":
                          ""}, {"role": "user", "content": "<s>|user|"}])"),
      0);
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  EXPECT_EQ(prompt->text, "<s>|system|Be brief.</s>|user|</s>|user|<s>|user|</s>|assistant|");
  std::vector<std::string> marked;
  for (const ByteRange& range : prompt->from_messages)
    marked.push_back(prompt->text.substr(range.begin, range.end - range.begin));
  EXPECT_EQ(marked, (std::vector<std::string>{"Be brief.", "<s>|user|"}));
}

TEST(ChatTemplate, ChoosesATemplateByTheTools) {
  TokenizerConfig config = config_of("plain");
  config.chat_templates["tool_use"] = "{{ tools | length }} tools";
  EXPECT_EQ(prompt_of(config, R"([{"role": "user"}])"), "plain");
  EXPECT_EQ(prompt_of(config, R"({"messages": [{"role": "user"}], "tools": [{"a": 1}]})"),
            "1 tools");
  EXPECT_EQ(prompt_of(config, R"({"messages": [{"role": "user"}], "tools": null})"), "plain");
  config.chat_templates = {{"rag", "x"}};
  EXPECT_NE(prompt_of(config, R"([{"role": "user"}])").find("rag"), std::string::npos);
}

// The library transformers leaves null fields out and gives reasoning all of its names.
TEST(ChatTemplate, NormalizesMessages) {
  const TokenizerConfig config = config_of("{{ messages[0] | tojson }}");
  EXPECT_EQ(prompt_of(config, R"([{"role": "user", "content": null, "tool_calls": null}])"),
            R"({"role": "user"})");
  EXPECT_EQ(prompt_of(config, R"([{"role": "a", "reasoning": "r", "content": "c"}])"),
            R"({"thinking": "r", "role": "a", "reasoning": "r", "content": "c", )"
            R"("reasoning_content": "r"})");
}

TEST(ChatTemplate, GivesTheTemplateItsVariables) {
  const TokenizerConfig config =
      config_of("{{ documents[0].title }} {{ think }} {{ eos_token }} {{ tools is none }}");
  EXPECT_EQ(prompt_of(config, R"({"messages": [{"role": "user"}], "documents": [{"title": "T"}],
                              "chat_template_kwargs": {"think": false, "eos_token": "!"}})"),
            "T False ! True");
  EXPECT_NE(prompt_of(config, R"({"messages": [{}], "chat_template_kwargs": {"tools": []}})")
                .find("\"tools\""),
            std::string::npos);
}

// The prompt ends where the last message does, even if the template trims messages.
TEST(ChatTemplate, ContinuesTheLastMessage) {
  const auto continued = [](const std::string& source, const std::string& content,
                            const std::string& how = "true") {
    return prompt_of(config_of(source), R"({"messages": [{"role": "user", "content": "q"},
      {"role": "assistant", "content": )" + content +
                                            R"(, "thinking": "why"}],
      "continue_final_message": )" + how + "}");
  };
  EXPECT_EQ(continued(kBars, R"("so far ")"), "<s>|user|q</s>|assistant|so far");
  const std::string untrimmed = "{% for m in messages %}|{{ m.content }}|end{% endfor %}";
  EXPECT_EQ(continued(untrimmed, R"("so far ")"), "|q|end|so far ");
  const std::string parts =
      "{% for m in messages[1:] %}{% for p in m.content %}{{ p.text }},{% endfor %}{% endfor %}";
  EXPECT_EQ(continued(parts, R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"},
                                 {"type": "image", "text": 5}])"),
            "a,b");
  EXPECT_EQ(continued("{{ messages[1].reasoning_content }}{{ messages[1].content }}", R"("c")",
                      R"("thinking")"),
            "why");
  EXPECT_TRUE(continued("{{ messages[0].content }}", R"("c")").starts_with("error: chat:"));
  EXPECT_TRUE(continued(kBars, R"("c")", R"("frob")").starts_with("error: chat:"));
}

TEST(ChatTemplate, ErrorsNameTheCause) {
  const auto expect_error = [](const TokenizerConfig& config, const std::string& json,
                               const std::string& part) {
    const std::string text = prompt_of(config, json);
    EXPECT_TRUE(text.starts_with("error: ")) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const std::string hello = R"([{"role": "user", "content": "Hi"}])";
  expect_error({}, hello, "no chat template");
  expect_error(config_of("{{ 1"), hello, "chat template:1:5: expected }}");
  expect_error(config_of("{{ raise_exception('No!') }}"), hello, "No!");
  expect_error(config_of(kBars), "[]", "at least one message");
  expect_error(config_of(kBars),
               R"({"messages": [{}], "add_generation_prompt": true,
                   "continue_final_message": true})",
               "continue");
}

TEST(Conversation, KnownFieldsAreReadAndOthersRefused) {
  const auto error = [](const std::string& json) {
    const auto conversation = parse_conversation(json, "file");
    return conversation.ok() ? "none" : conversation.error().message;
  };
  EXPECT_TRUE(conversation_of(R"({"messages": [{"role": "user"}]})").add_generation_prompt);
  EXPECT_EQ(conversation_of(R"([{"z": 1, "a": 2}])").messages.dump(), R"([{"z":1,"a":2}])");
  EXPECT_TRUE(error("{").starts_with("file"));
  EXPECT_NE(error("5").find("list of messages"), std::string::npos);
  EXPECT_NE(error("[5]").find("list of objects, found 5"), std::string::npos);
  EXPECT_NE(error(R"({"messages": [], "frob": 1})").find("frob"), std::string::npos);
  EXPECT_NE(error(R"({"messages": [], "tools": {}})").find("tools"), std::string::npos);
  EXPECT_NE(error(R"({"messages": [], "add_generation_prompt": 1})").find("true or false"),
            std::string::npos);
  EXPECT_FALSE(parse_tools("{}", "file").ok());
}

}  // namespace
}  // namespace neuronmm::text
