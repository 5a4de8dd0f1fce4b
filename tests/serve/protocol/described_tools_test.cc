// Tests tools for models whose chat template shows none: the prompt that the model reads, and that
// its calls, forced or not, are recognized.

#include <fstream>

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "test_data.h"

namespace neuronmm::serve {
namespace {

const char* const kPlain =
    "{% for m in messages %}|{{ m.role }}|{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}|assistant|{% endif %}";
// A strict template: like Gemma's it accepts no system message, and like Llama 2's it demands that
// user and assistant alternate.
const char* const kStrict =
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns') }}{% endif %}|{{ m.role }}|{{ m.content }}{% endfor %}|assistant|";

Json with_tools() {
  Json body = chat_body();
  body["tools"] = {tool("f"), tool("g")};
  return body;
}

// Returns a chat with two calls and their two results.
Json with_history() {
  Json body = with_tools();
  const Json call = {{"id", "c"}, {"type", "function"}, {"function", {{"name", "f"}}}};
  Json arguments = call;
  arguments["function"]["arguments"] = R"({"a": 1})";
  body["messages"].push_back(
      {{"role", "assistant"}, {"content", "Well"}, {"tool_calls", {call, arguments}}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "c"}, {"content", "one"}});
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", "c"}, {"content", "two"}});
  return body;
}

std::string shown(const ServedModel& model, const Json& body) {
  const auto prompt = apply_template_response(model, body.dump());
  EXPECT_TRUE(prompt.ok()) << prompt.error().message;
  return prompt.ok() ? Json::parse(*prompt)["prompt"].get<std::string>() : "";
}

TEST(DescribedTools, AreDescribedInTheSystemMessage) {
  const ServedFolder folder(kPlain);
  const std::string prompt = shown(folder.model, with_tools());
  EXPECT_TRUE(prompt.starts_with("|system|# Tools")) << prompt;
  EXPECT_NE(prompt.find(tool("g").dump()), std::string::npos) << prompt;
  EXPECT_TRUE(prompt.ends_with("|user|Hi|assistant|")) << prompt;
  Json body = with_tools();
  body["messages"].insert(body["messages"].begin(),
                          Json{{"role", "system"}, {"content", "Be kind."}});
  EXPECT_TRUE(shown(folder.model, body).starts_with("|system|Be kind.\n\n# Tools"));
  body["tool_choice"] = "none";
  EXPECT_EQ(shown(folder.model, body), "|system|Be kind.|user|Hi|assistant|");
}

TEST(DescribedTools, CallsAndResultsBecomeText) {
  const ServedFolder folder(kPlain);
  const std::string prompt = shown(folder.model, with_history());
  EXPECT_TRUE(prompt.ends_with(
      "|assistant|Well\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>"
      "|user|<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"
      "|assistant|"))
      << prompt;
}

TEST(DescribedTools, AreDescribedByTheUserIfThereIsNoSystemMessage) {
  const ServedFolder folder(kStrict);
  const std::string prompt = shown(folder.model, with_history());
  EXPECT_TRUE(prompt.starts_with("|user|# Tools")) << prompt;
  EXPECT_NE(prompt.find("</tool_call>\n\nHi|assistant|Well"), std::string::npos) << prompt;
}

TEST(DescribedTools, WorkWithPublishedTemplates) {
  NMM_TEST_DATA_OR_SKIP(path, "oracles/hf-tiny/chat_template_cases.json");
  std::ifstream file(path);
  const Json groups = Json::parse(file);
  for (const auto& [name, group] : groups.items()) {
    SCOPED_TRACE(name);
    const ServedFolder folder(group["template"].get<std::string>());
    const std::string prompt = shown(folder.model, with_history());
    EXPECT_NE(prompt.find("\"name\""), std::string::npos) << prompt;
    EXPECT_NE(prompt.find("two"), std::string::npos) << prompt;
  }
}

// A model whose calls are no JSON is told to write JSON if its calls must obey schemas.
TEST(DescribedTools, TellModelsWhichCallsAreForced) {
  const char* const own =
      "{{ tools }}<|tool_call_start|>{% for m in messages %}|{{ m.role }}|"
      "{{ m.content }}{% endfor %}";
  const char* const same =
      "{{ tools }}<tool_call><arg_key>{% for m in messages %}|{{ m.role }}|"
      "{{ m.content }}{% endfor %}";
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  for (const char* const source : {own, same}) {
    const ServedFolder folder(source);
    Json body = with_tools();
    const auto prompt_with = [&](const std::string& answer) {
      const Exchange made = exchange(folder.model, body, {says(answer)});
      EXPECT_EQ(made.body()["choices"][0]["message"]["tool_calls"].size(), 1U) << answer;
      return folder.model.tokenizer->decode(made.requests[0].prompt);
    };
    const std::string native =
        source == own ? "<|tool_call_start|>[f()]<|tool_call_end|>" : "<tool_call>f\n</tool_call>";
    EXPECT_EQ(prompt_with(native).find("# Tools"), std::string::npos);
    for (const char* const demand : {"strict", "required"}) {
      body = with_tools();
      if (demand == std::string("required")) body["tool_choice"] = "required";
      if (demand == std::string("strict")) body["tools"][0]["function"]["strict"] = true;
      const bool is_told = prompt_with(call).find("# Tools") != std::string::npos;
      EXPECT_EQ(is_told, source == own) << demand;
    }
  }
}

TEST(DescribedTools, CallsAreRecognizedAndCanBeForced) {
  const ServedFolder folder(kPlain);
  const ScriptedAnswer answer =
      says("Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>");
  const Json choice = exchange(folder.model, with_tools(), {answer}).body()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
  Json forced = with_tools();
  forced["tool_choice"] = "required";
  const StructuredOutput output = exchange(folder.model, forced, {answer}).structured_output;
  EXPECT_EQ(output.kind, StructuredOutput::Kind::kToolCalls);
  EXPECT_EQ(output.calls.before_name, "<tool_call>\n{\"name\": \"");
}

// As in OpenAI's API, finish_reason is "length", the demanded call has the part of its arguments
// that exists, and there is no content.
TEST(ForcedCalls, TruncatedCallsKeepTheArgumentsSoFar) {
  for (const std::string& source : {std::string(kPlain), hermes_template()}) {
    const ServedFolder folder(source);
    for (const bool named : {false, true}) {
      Json body = with_tools();
      body["tool_choice"] = "required";
      if (named) body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "f"}}}};
      const auto cut = [&](std::string_view text, bool stream) {
        body["stream"] = stream;
        return exchange(folder.model, body,
                        {{.tokens = bytes(text), .reason = FinishReason::kLength}});
      };
      const std::string begin = "<tool_call>\n{\"name\": \"f\", \"arguments\": ";
      for (const auto& [text, arguments] : {std::pair<std::string, std::string>{"<tool_ca", ""},
                                            {"<tool_call>\n{\"name\": \"", ""},
                                            {begin + "{\"a\": \"b", "{\"a\": \"b"}}) {
        SCOPED_TRACE(text);
        const Json choice = cut(text, false).body()["choices"][0];
        EXPECT_EQ(choice["finish_reason"], "length");
        EXPECT_TRUE(choice["message"]["content"].is_null()) << choice;
        EXPECT_EQ(choice["message"].contains("tool_calls"), named || !arguments.empty());
        if (choice["message"].contains("tool_calls")) {
          const Json& call = choice["message"]["tool_calls"][0]["function"];
          EXPECT_EQ(call["name"], "f");
          EXPECT_EQ(call["arguments"], arguments);
        }
        std::string streamed, content;
        for (const Json& chunk : cut(text, true).sink->chunks()) {
          const Json& delta = chunk["choices"][0]["delta"];
          content += delta.value("content", "");
          if (delta.contains("tool_calls"))
            streamed += delta["tool_calls"][0]["function"]["arguments"].get<std::string>();
        }
        EXPECT_EQ(streamed, arguments);
        EXPECT_EQ(content, "");
      }
    }
  }
}

}  // namespace
}  // namespace neuronmm::serve
