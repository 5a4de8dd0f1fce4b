// Tests that every conversation that the server produces is accepted by the server: the answers of
// each API are sent back as clients send them, for templates with all demands that are known. With
// $NEURONMM_TEMPLATES, folders of public templates (separated by spaces), these are tried, too.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "serve/protocol/demanding_templates.h"
#include "serve/protocol/fake_server.h"
#include "serve/protocol/written_calls.h"
#include "test_data.h"

namespace neuronmm::serve {
namespace {

constexpr const char* kCalledTools[] = {"get_weather", "list_files"};

Json parameters_of(int tool) {
  if (tool == 1) return {{"type", "object"}, {"properties", Json::object()}};
  return {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}};
}

// A client of one API: it keeps the conversation and sends it with every request.
class PlayingClient {
 public:
  virtual ~PlayingClient() = default;
  virtual void add_user(const std::string& text) = 0;
  virtual void add_system(const std::string& text) = 0;
  // Adds the answer and returns the ids of its calls.
  virtual std::vector<std::string> add_answer(const Json& response) = 0;
  virtual void add_results(const std::vector<std::string>& ids, bool in_parts) = 0;
  Exchange send(const ServedModel& model, const ScriptedAnswer& answer) const {
    return exchange_by(prepare_, model, body_, {answer});
  }

 protected:
  explicit PlayingClient(decltype(&prepare_chat_completion) prepare) : prepare_(prepare) {}
  static std::string result(size_t i) { return fmt::format("result{}", i); }

  Json body_ = Json::object();
  decltype(&prepare_chat_completion) prepare_;
};

class ChatClient : public PlayingClient {
 public:
  ChatClient() : PlayingClient(prepare_chat_completion) {
    body_["messages"] = Json::array();
    for (int i = 0; i < 2; ++i)
      body_["tools"].push_back(
          {{"type", "function"},
           {"function", {{"name", kCalledTools[i]}, {"parameters", parameters_of(i)}}}});
  }
  void add_user(const std::string& text) override { add("user", text); }
  void add_system(const std::string& text) override { add("system", text); }
  std::vector<std::string> add_answer(const Json& response) override {
    const Json& message = response["choices"][0]["message"];
    body_["messages"].push_back(message);
    std::vector<std::string> ids;
    for (const Json& call : message.value("tool_calls", Json::array())) ids.push_back(call["id"]);
    return ids;
  }
  void add_results(const std::vector<std::string>& ids, bool in_parts) override {
    for (size_t i = 0; i < ids.size(); ++i) {
      Json content = result(i);
      if (in_parts) content = {{{"type", "text"}, {"text", result(i)}}};
      body_["messages"].push_back(
          {{"role", "tool"}, {"tool_call_id", ids[i]}, {"content", content}});
    }
  }

 private:
  void add(const char* role, const std::string& text) {
    body_["messages"].push_back({{"role", role}, {"content", text}});
  }
};

class ResponsesClient : public PlayingClient {
 public:
  ResponsesClient() : PlayingClient(prepare_responses_api) {
    body_["input"] = Json::array();
    for (int i = 0; i < 2; ++i)
      body_["tools"].push_back(
          {{"type", "function"}, {"name", kCalledTools[i]}, {"parameters", parameters_of(i)}});
  }
  void add_user(const std::string& text) override {
    body_["input"].push_back({{"role", "user"}, {"content", text}});
  }
  void add_system(const std::string& text) override { body_["instructions"] = text; }
  std::vector<std::string> add_answer(const Json& response) override {
    std::vector<std::string> ids;
    for (const Json& item : response["output"]) {
      body_["input"].push_back(item);
      if (item["type"] == "function_call") ids.push_back(item["call_id"]);
    }
    return ids;
  }
  void add_results(const std::vector<std::string>& ids, bool in_parts) override {
    for (size_t i = 0; i < ids.size(); ++i) {
      Json output = result(i);
      if (in_parts) output = {{{"type", "input_text"}, {"text", result(i)}}};
      body_["input"].push_back(
          {{"type", "function_call_output"}, {"call_id", ids[i]}, {"output", output}});
    }
  }
};

class AnthropicClient : public PlayingClient {
 public:
  AnthropicClient() : PlayingClient(prepare_anthropic) {
    body_ = {{"max_tokens", 100}, {"messages", Json::array()}};
    for (int i = 0; i < 2; ++i)
      body_["tools"].push_back({{"name", kCalledTools[i]}, {"input_schema", parameters_of(i)}});
  }
  void add_user(const std::string& text) override {
    body_["messages"].push_back({{"role", "user"}, {"content", text}});
  }
  void add_system(const std::string& text) override { body_["system"] = text; }
  std::vector<std::string> add_answer(const Json& response) override {
    body_["messages"].push_back({{"role", "assistant"}, {"content", response["content"]}});
    std::vector<std::string> ids;
    for (const Json& block : response["content"]) {
      if (block["type"] == "tool_use") ids.push_back(block["id"]);
    }
    return ids;
  }
  void add_results(const std::vector<std::string>& ids, bool in_parts) override {
    Json blocks = Json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
      Json content = result(i);
      if (in_parts) content = {{{"type", "text"}, {"text", result(i)}}};
      blocks.push_back({{"type", "tool_result"}, {"tool_use_id", ids[i]}, {"content", content}});
    }
    if (!ids.empty()) body_["messages"].push_back({{"role", "user"}, {"content", blocks}});
  }
};

// Returns an answer with calls as a model of this syntax writes them.
std::string calls_text(ToolSyntax syntax, int count) {
  std::vector<WrittenCall> calls = {{kCalledTools[0], {{"city", "Paris"}}}, {kCalledTools[1]}};
  calls.resize(count);
  return written_calls(syntax, calls);
}

// The answers of one conversation. The last call is cut off by the limit of tokens.
std::vector<ScriptedAnswer> answers(const TemplateTraits& traits) {
  const std::string one = calls_text(traits.tools, 1), two = calls_text(traits.tools, 2);
  const std::string thoughts =
      traits.thinks ? traits.reasoning.begin + "Hm.\n" + traits.reasoning.end + "\n\n" : "";
  ScriptedAnswer cut = says(one.substr(0, one.rfind("Paris") + 3));
  cut.reason = FinishReason::kLength;
  return {says("Hello."),       says(thoughts + "Good."), says(one), says(two),
          says(thoughts + two), says("I look.\n" + one),  says(""),  cut,
          says("Done.")};
}

// Plays a conversation of many rounds. Returns the error of the first refused request, or what the
// prompt lacks, or an empty text.
std::string play_back(const ServedModel& model, PlayingClient& client) {
  client.add_system("Besystematic.");
  bool in_parts = false;
  std::vector<std::string> ids;
  for (const ScriptedAnswer& answer : answers(model.tool_chats)) {
    // The user may speak at once after results, or wait for the answer to them.
    if (ids.empty() || in_parts) client.add_user("Question");
    const Exchange exchange = client.send(model, answer);
    if (exchange.error) return exchange.error->message;
    const std::string prompt = model.tokenizer->decode(exchange.requests[0].prompt);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (prompt.find(fmt::format("result{}", i)) == std::string::npos)
        return fmt::format("no result{} in {}", i, prompt);
    }
    if (prompt.find("Besystematic") == std::string::npos) return "no system text in " + prompt;
    ids = client.add_answer(exchange.body());
    client.add_results(ids, in_parts);
    in_parts = !in_parts;
  }
  return "";
}

void expect_accepted(const std::string& name, const std::string& source) {
  SCOPED_TRACE(name);
  ServedFolder folder(source);
  folder.model.context_tokens = 1 << 20;  // some templates explain much
  ChatClient chat;
  ResponsesClient responses;
  AnthropicClient anthropic;
  for (PlayingClient* client : std::initializer_list<PlayingClient*>{&chat, &responses, &anthropic})
    EXPECT_EQ(play_back(folder.model, *client), "") << source;
}

TEST(PlayedBack, AnswersAreAcceptedWhateverATemplateDemands) {
  for (const auto& [name, source] : demanding_templates()) expect_accepted(name, source);
}

TEST(PlayedBack, AnswersAreAcceptedByPublishedTemplates) {
  NMM_TEST_DATA_OR_SKIP(path, "oracles/hf-tiny/chat_template_cases.json");
  std::ifstream file(path);
  const Json groups = Json::parse(file);
  for (const auto& [name, group] : groups.items())
    expect_accepted(name, group["template"].get<std::string>());
}

TEST(PlayedBack, AnswersAreAcceptedByPublicTemplates) {
  const char* folders = std::getenv("NEURONMM_TEMPLATES");
  if (folders == nullptr)
    GTEST_SKIP() << "no templates; set NEURONMM_TEMPLATES to folders of .jinja files";
  std::istringstream list(folders);
  for (std::string folder; list >> folder;) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".jinja") continue;
      std::ifstream file(entry.path());
      std::ostringstream text;
      text << file.rdbuf();
      expect_accepted(entry.path().filename(), text.str());
    }
  }
}

std::string prompt_of(const ServedModel& model, Json body, const Json& messages) {
  body["messages"] = messages;
  const auto prompt = apply_template_response(model, body.dump());
  EXPECT_TRUE(prompt.ok()) << prompt.error().message;
  return prompt.ok() ? Json::parse(*prompt)["prompt"].get<std::string>() : "";
}

// Front ends send such conversations: turns of one role in a row, an assistant that speaks first, a
// system message in the middle.
TEST(MergedTurns, FollowFromTemplatesThatDemandAlternatingTurns) {
  const std::vector<DemandingTemplate> all = demanding_templates();
  const auto found = std::ranges::find_if(all, [](const auto& t) {
    return std::string_view(t.name) == "no tools, alternating turns without system";
  });
  const ServedFolder folder(found->source);
  const Json user = {{"role", "user"}, {"content", "a"}},
             more = {{"role", "user"}, {"content", "b"}},
             assistant = {{"role", "assistant"}, {"content", "c"}},
             system = {{"role", "system"}, {"content", "s"}};
  EXPECT_EQ(prompt_of(folder.model, {}, {user, more}), "|user|a\n\nb");
  EXPECT_EQ(prompt_of(folder.model, {}, {assistant, user}), "|user||assistant|c|user|a");
  EXPECT_EQ(prompt_of(folder.model, {}, {system, user, assistant, assistant, more}),
            "|user|s\n\na|assistant|c\n\nc|user|b");
  EXPECT_EQ(prompt_of(folder.model, {}, {user, assistant, system, more}),
            "|user|a|assistant|c|user|s\n\nb");
  EXPECT_EQ(prompt_of(folder.model, {}, {user, assistant, system}), "|user|a|assistant|c|user|s");
}

// A template that accepts a conversation decides alone what the prompt is.
TEST(MergedTurns, DoNotChangeAcceptedConversations) {
  const ServedFolder folder(demanding_templates().front().source);
  const Json user = {{"role", "user"}, {"content", "a"}};
  EXPECT_EQ(prompt_of(folder.model, {}, {user, user}), "|user|a|user|a|assistant|");
}

}  // namespace
}  // namespace neuronmm::serve
