// Tests that calls in the form of published chat templates are read back as the same calls.

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "serve/output/output_parser.h"
#include "serve/protocol/fake_server.h"
#include "test_data.h"

namespace neuronmm::serve {
namespace {

const char* const kTools = R"([{"type": "function", "function": {"name": "get_weather",
  "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"},
  "days": {"type": "array"}}}}}])";

Json chat_with_call(const std::string& arguments) {
  const Json call = {{"id", "abcdefghi"},
                     {"type", "function"},
                     {"function", {{"name", "get_weather"}, {"arguments", arguments}}}};
  Json body = {
      {"messages",
       {{{"role", "user"}, {"content", "How is the weather?"}},
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({call})}}}},
      {"add_generation_prompt", false}};
  body["tools"] = Json::parse(kTools);
  return body;
}

std::string prompt_of(const ServedModel& model, const Json& body) {
  const auto prompt = apply_template_response(model, body.dump());
  return prompt.ok() ? Json::parse(*prompt)["prompt"].get<std::string>()
                     : "error: " + prompt.error().message;
}

ToolList read_tools() {
  const Json body = {{"tools", Json::parse(kTools)}};
  RequestProblem problem;
  FieldReader fields(body, "", problem, &chat_prompt_table());
  return std::make_shared<const std::vector<Tool>>(
      read_tool_fields(fields, ToolSpelling::kNested).tools);
}

// Takes the text after `turn` in the prompt, up to `end`, as the answer of the model, and expects
// that the parser reads the call from it.
void expect_round_trip(const ServedModel& model, const std::string& turn, const std::string& end) {
  const std::string arguments = "{\"city\": \"Zürich \\\"}<\\n\", \"days\": [1, 2.5, null]}";
  const std::string prompt = prompt_of(model, chat_with_call(arguments));
  const size_t begin = prompt.rfind(turn);
  ASSERT_NE(begin, std::string::npos) << prompt;
  const size_t from = begin + turn.size();
  const std::string answer = prompt.substr(from, prompt.find(end, from) - from);
  OutputParser parser(model.tool_chats.thinks ? Thinking::kOptional : Thinking::kNone,
                      make_tool_call_parser(model.tool_chats.tools, read_tools()));
  std::vector<OutputDelta> deltas = parser.push(answer);
  for (const OutputDelta& delta : parser.finish()) deltas.push_back(delta);
  ASSERT_EQ(deltas.size(), 2u) << answer;
  EXPECT_EQ(deltas[0], (OutputDelta{OutputDelta::Kind::kCall, "get_weather", 0}));
  EXPECT_EQ(Json::parse(deltas[1].text), Json::parse(arguments)) << answer;
  EXPECT_TRUE(parser.has_calls());
}

TEST(PublishedTemplates, Qwen3) {
  NMM_TEST_DATA_OR_SKIP(path, "tokenizers/qwen3");
  const ServedFolder folder = ServedFolder::published(path);
  EXPECT_EQ(folder.model.tool_chats.tools, ToolSyntax::kHermes);
  EXPECT_TRUE(folder.model.plain_chats.thinks);
  expect_round_trip(folder.model, "<|im_start|>assistant\n", "<|im_end|>");
}

TEST(PublishedTemplates, Llama3) {
  NMM_TEST_DATA_OR_SKIP(path, "tokenizers/llama3");
  const ServedFolder folder = ServedFolder::published(path);
  EXPECT_EQ(folder.model.tool_chats.tools, ToolSyntax::kLlama);
  expect_round_trip(folder.model, "<|start_header_id|>assistant<|end_header_id|>\n\n",
                    "<|eot_id|>");
}

TEST(PublishedTemplates, Qwen3HasThoughtsUnlessTheyAreDisabled) {
  NMM_TEST_DATA_OR_SKIP(path, "tokenizers/qwen3");
  const ServedFolder folder = ServedFolder::published(path);
  const auto message = [&](Json body, const std::string& text) {
    body["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
    auto ids = folder.tokenizer().encode(text);
    return exchange(folder.model, body, {{.tokens = *ids}}).body()["choices"][0]["message"];
  };
  const Json thought = message(Json::object(), "<think>\nA greeting.\n</think>\n\nHello 😀!");
  EXPECT_EQ(thought["reasoning_content"], "A greeting.");
  EXPECT_EQ(thought["content"], "Hello 😀!");
  const Json quiet = message({{"chat_template_kwargs", {{"enable_thinking", false}}}}, "Hello!");
  EXPECT_FALSE(quiet.contains("reasoning_content"));
  EXPECT_EQ(quiet["content"], "Hello!");
  const std::string call =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>";
  Json tools;
  tools["tools"] = Json::parse(kTools);
  EXPECT_EQ(message(tools, "<think>\nx\n</think>\n\n" + call)["tool_calls"][0]["function"]["name"],
            "get_weather");
}

// The template itself writes the token for the beginning of a text; there must not be a second one.
TEST(PublishedTemplates, PromptsHaveOneBeginningOfTextToken) {
  NMM_TEST_DATA_OR_SKIP(path, "tokenizers/llama3");
  const ServedFolder folder = ServedFolder::published(path);
  const auto bos = folder.tokenizer().bos_id();
  ASSERT_TRUE(bos);
  const auto begins = [&](const Json& body) {
    const std::vector<TokenId> prompt = exchange(folder.model, body, {says("")}).requests[0].prompt;
    return std::count(prompt.begin(), prompt.end(), *bos);
  };
  EXPECT_EQ(begins({{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}), 1);
  EXPECT_EQ(begins({{"prompt", "<|begin_of_text|>Hi"}}), 1);
  EXPECT_LE(begins({{"prompt", "Hi"}}), 1);
}

TEST(PublishedTemplates, Qwen35WritesCallsBetweenTags) {
  NMM_TEST_DATA_OR_SKIP(path, "oracles/hf-tiny/chat_template_cases.json");
  std::ifstream file(path);
  const Json groups = Json::parse(file);
  const ServedFolder folder(groups["qwen3_5"]["template"].get<std::string>());
  expect_round_trip(folder.model, "</think>\n\n", "<|im_end|>");
}

TEST(PublishedTemplates, OtherTemplatesHaveDescribedTools) {
  NMM_TEST_DATA_OR_SKIP(path, "oracles/hf-tiny/chat_template_cases.json");
  std::ifstream file(path);
  const Json groups = Json::parse(file);
  for (const auto& [name, group] : groups.items()) {
    const ToolSyntax syntax = template_traits(group["template"].get<std::string>()).tools;
    EXPECT_EQ(syntax, name.starts_with("qwen3") ? ToolSyntax::kXml : ToolSyntax::kDescribed)
        << name;
  }
}

}  // namespace
}  // namespace neuronmm::serve
