// Tests the answers of Ollama's protocol: streams and single objects, calls, thoughts, contexts,
// conversations that are too long, and descriptions of the model.

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "serve/protocol/ollama_generation.h"
#include "serve/protocol/ollama_models.h"

namespace neuronmm::serve {
namespace {

// Returns a template whose model thinks if the client wants it.
std::string thinking_template() {
  return "{% for m in messages %}|{{ m.content }}{% endfor %}"
         "{% if enable_thinking %}<think>{% else %}<think></think>{% endif %}";
}

std::filesystem::path small_folder_without_template() {
  const auto folder = std::filesystem::path(testing::TempDir()) / "ollama_without_template";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << text::small_tokenizer();
  std::ofstream(folder / "tokenizer_config.json") << "{}";
  return folder;
}

Json chat(const char* text = "Hi") {
  return {{"model", "small"},
          {"messages", {{{"role", "user"}, {"content", text}}}},
          {"options", {{"temperature", 0}}}};
}

std::vector<Json> lines_of(const Exchange& exchange) {
  std::vector<Json> lines;
  for (const std::string& event : exchange.sink->events) {
    EXPECT_TRUE(event.ends_with("}\n") && event.find('\n') + 1 == event.size()) << event;
    lines.push_back(Json::parse(event));
  }
  return lines;
}

std::string prompt_of(const ServedFolder& folder, const Exchange& exchange) {
  EXPECT_EQ(exchange.requests.size(), 1u);
  return folder.tokenizer().decode(exchange.requests.at(0).prompt);
}

void expect_metrics(const Json& last) {
  for (const char* key : {"total_duration", "load_duration", "prompt_eval_duration",
                          "eval_duration", "prompt_eval_count"})
    EXPECT_GE(last[key].get<int64_t>(), 1) << key;
}

TEST(OllamaChat, StreamsLinesByDefault) {
  const ServedFolder folder;
  const Exchange result = exchange_by(prepare_ollama_chat, folder.model, chat(), {says("Hello")});
  const std::vector<Json> lines = lines_of(result);
  ASSERT_EQ(lines.size(), 6u);
  std::string text;
  for (const Json& line : lines) {
    EXPECT_EQ(line["model"], "small");
    EXPECT_EQ(line["created_at"].get<std::string>().size(), 27u);
    EXPECT_EQ(line["message"]["role"], "assistant");
    EXPECT_EQ(line["done"], &line == &lines.back());
    text += line["message"]["content"];
  }
  EXPECT_EQ(text, "Hello");
  EXPECT_EQ(lines.back()["done_reason"], "stop");
  EXPECT_EQ(lines.back()["eval_count"], 5);
  expect_metrics(lines.back());
  EXPECT_TRUE(result.sink->ended);
}

TEST(OllamaChat, HasOneObjectWithoutAStream) {
  const ServedFolder folder;
  Json body = chat();
  body["stream"] = false;
  body["model"] = "alias:latest";
  const Json answer = exchange_by(prepare_ollama_chat, folder.model, body,
                                  {{.tokens = bytes("Hello"), .reason = FinishReason::kLength}})
                          .body();
  EXPECT_EQ(answer["message"], Json::parse(R"({"role": "assistant", "content": "Hello"})"));
  EXPECT_EQ(answer["model"], "alias:latest");
  EXPECT_EQ(answer["done"], true);
  EXPECT_EQ(answer["done_reason"], "length");
  expect_metrics(answer);
}

TEST(OllamaChat, CallsHaveObjectsAsArguments) {
  const ServedFolder folder;
  Json body = chat();
  body["tools"] = {tool("f"), tool("g")};
  const char* text =
      "I look.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  std::string content;
  Json calls = Json::array();
  for (const Json& line :
       lines_of(exchange_by(prepare_ollama_chat, folder.model, body, {says(text)}))) {
    content += line["message"]["content"];
    for (const Json& call : line["message"].value("tool_calls", Json::array()))
      calls.push_back(call["function"]);
  }
  EXPECT_EQ(content, "I look.");
  const Json expected = Json::parse(
      R"([{"index": 0, "name": "f", "arguments": {"a": 1}}, {"index": 1, "name": "g", "arguments": {}}])");
  EXPECT_EQ(calls, expected);
  body["stream"] = false;
  const Json whole =
      exchange_by(prepare_ollama_chat, folder.model, body, {says(text)}).body()["message"];
  EXPECT_EQ(whole["content"], "I look.");
  ASSERT_EQ(whole["tool_calls"].size(), 2u);
  EXPECT_EQ(whole["tool_calls"][1]["function"], expected[1]);
  EXPECT_TRUE(whole["tool_calls"][0]["id"].get<std::string>().starts_with("call_"));
}

// The message is played back as Ollama's client does it, without ids.
TEST(OllamaChat, TheServersOwnCallsAreAcceptedAgain) {
  const ServedFolder folder;
  Json body = chat();
  body["tools"] = {tool("f")};
  body["stream"] = false;
  Json answer = exchange_by(prepare_ollama_chat, folder.model, body,
                            {says("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>")})
                    .body()["message"];
  answer["tool_calls"][0].erase("id");
  body["messages"].push_back(answer);
  body["messages"].push_back({{"role", "tool"}, {"tool_name", "f"}, {"content", "12"}});
  const Exchange again = exchange_by(prepare_ollama_chat, folder.model, body, {says("Twelve.")});
  ASSERT_FALSE(again.error) << again.error->message;
  EXPECT_EQ(again.body()["message"]["content"], "Twelve.");
}

TEST(OllamaChat, ThinkSeparatesThoughts) {
  const ServedFolder folder(thinking_template());
  Json body = chat();
  body["think"] = true;
  body["stream"] = false;
  const auto answer = [&] {
    const Exchange result =
        exchange_by(prepare_ollama_chat, folder.model, body, {says("I think.</think>Yes.")});
    return result.error ? Json(result.error->message) : result.body()["message"];
  };
  EXPECT_EQ(answer(),
            Json::parse(R"({"role": "assistant", "content": "Yes.", "thinking": "I think."})"));
  body["think"] = "high";
  EXPECT_EQ(answer()["thinking"], "I think.");
  body["think"] = false;
  EXPECT_EQ(answer()["content"], "I think.</think>Yes.");
}

TEST(OllamaChat, ThinkIsRefusedIfTheModelCannot) {
  const ServedFolder folder;
  Json body = chat();
  body["think"] = true;
  const Exchange result = exchange_by(prepare_ollama_chat, folder.model, body, {});
  EXPECT_EQ(result.error->message, "\"small\" does not support thinking");
  body["think"] = false;
  EXPECT_FALSE(exchange_by(prepare_ollama_chat, folder.model, body, {says("a")}).error);
}

TEST(OllamaChat, LogprobsComeWithTheirTokens) {
  const ServedFolder folder;
  Json body = chat();
  body["logprobs"] = true;
  body["top_logprobs"] = 1;
  int64_t tokens = 0;
  for (const Json& line :
       lines_of(exchange_by(prepare_ollama_chat, folder.model, body, {says("abc")}))) {
    for (const Json& logprob : line.value("logprobs", Json::array())) {
      EXPECT_EQ(logprob["logprob"], -0.5);
      EXPECT_EQ(logprob["top_logprobs"].size(), 1u);
      ++tokens;
    }
  }
  EXPECT_EQ(tokens, 3);
}

TEST(OllamaChat, AnErrorInAStreamIsItsLastLine) {
  const ServedFolder folder;
  const Exchange result =
      exchange_by(prepare_ollama_chat, folder.model, chat(),
                  {{.tokens = bytes("a"), .reason = FinishReason::kError, .message = "it broke"}});
  EXPECT_EQ(result.sink->events.back(), "{\"error\":\"it broke\"}\n");
}

TEST(OllamaChat, UnknownModelIsNotFound) {
  const ServedFolder folder;
  Json body = chat();
  EXPECT_TRUE(check_model(folder.model, "alias:latest").ok());
  for (const char* name : {"smal", "small:7b", ":latest", "small:latest:latest"}) {
    body["model"] = name;
    const Exchange result = exchange_by(prepare_ollama_chat, folder.model, body, {});
    ASSERT_TRUE(result.error) << name;
    EXPECT_EQ(result.error->status, 404);
    EXPECT_TRUE(result.error->message.starts_with(fmt::format("model '{}' not found", name)));
  }
}

TEST(OllamaChat, EmptyRequestsAreAnsweredAtOnce) {
  const ServedFolder folder;
  Json body = {{"model", "small"}};
  Exchange result = exchange_by(prepare_ollama_chat, folder.model, body, {});
  EXPECT_TRUE(result.requests.empty() && result.sink->ended);
  EXPECT_EQ(result.body()["done_reason"], "load");
  EXPECT_EQ(result.body()["message"]["content"], "");
  body["keep_alive"] = 0;
  result = exchange_by(prepare_ollama_generate, folder.model, body, {});
  EXPECT_EQ(result.body()["done_reason"], "unload");
  EXPECT_EQ(result.body()["response"], "");
}

// The system message and the latest messages stay, and the rest begins with the user.
TEST(OllamaChat, LongConversationsLoseTheirOldestMessages) {
  ServedFolder folder;
  Json body = chat();
  body["messages"] = {{{"role", "system"}, {"content", "S"}}};
  for (int i = 0; i < 200; ++i) {
    body["messages"].push_back({{"role", "user"}, {"content", fmt::format("q{}", i)}});
    body["messages"].push_back({{"role", "assistant"}, {"content", fmt::format("a{}", i)}});
  }
  body["messages"].push_back({{"role", "user"}, {"content", "last"}});
  for (const int64_t context : {60, 100, 2000}) {
    folder.model.context_tokens = context;
    const Exchange result = exchange_by(prepare_ollama_chat, folder.model, body, {says("a")});
    ASSERT_FALSE(result.error) << result.error->message;
    const std::string prompt = prompt_of(folder, result);
    EXPECT_LT(std::ssize(result.requests[0].prompt), context);
    // One more turn has at most 26 tokens and would not fit.
    EXPECT_GT(std::ssize(result.requests[0].prompt), context - 28);
    EXPECT_TRUE(prompt.starts_with("<|begin|>|system|S|user|q")) << prompt;
    EXPECT_TRUE(prompt.ends_with("|user|last|assistant|")) << prompt;
  }
  body["truncate"] = false;
  EXPECT_EQ(exchange_by(prepare_ollama_chat, folder.model, body, {}).error->code,
            "context_length_exceeded");
  body["truncate"] = true;
  folder.model.context_tokens = 10;
  EXPECT_EQ(exchange_by(prepare_ollama_chat, folder.model, body, {}).error->code,
            "context_length_exceeded");
}

TEST(OllamaGenerate, AnswersWithAResponseAndAContext) {
  const ServedFolder folder;
  Json body = {{"model", "small"}, {"prompt", "Hi"}, {"system", "S"}, {"stream", false}};
  const Exchange first = exchange_by(prepare_ollama_generate, folder.model, body,
                                     {{.tokens = bytes("Yes"), .stop_token = kEndId}});
  EXPECT_EQ(prompt_of(folder, first), "<|begin|>|system|S|user|Hi|assistant|");
  const Json answer = first.body();
  EXPECT_EQ(answer["response"], "Yes");
  EXPECT_FALSE(answer.contains("message"));
  std::vector<TokenId> context = first.requests[0].prompt;
  for (const TokenId id : bytes("Yes")) context.push_back(id);
  context.push_back(kEndId);
  EXPECT_EQ(answer["context"], context);
  body = {{"model", "small"}, {"prompt", "Why?"}, {"context", context}};
  const Exchange second = exchange_by(prepare_ollama_generate, folder.model, body, {says("a")});
  std::vector<TokenId> continued = context;
  for (const TokenId id : bytes("|user|Why?|assistant|")) continued.push_back(id);
  EXPECT_EQ(second.requests[0].prompt, continued);
  body["context"] = {99999};
  EXPECT_EQ(exchange_by(prepare_ollama_generate, folder.model, body, {}).error->param, "context");
}

TEST(OllamaGenerate, RawPromptsGoToTheModelAsTheyAre) {
  const ServedFolder folder(thinking_template());
  const Json body = {{"model", "small"}, {"prompt", "a<|end|>b"}, {"raw", true}, {"stream", false}};
  const Exchange result =
      exchange_by(prepare_ollama_generate, folder.model, body, {says("<think>x</think> y")});
  EXPECT_EQ(result.requests[0].prompt, (std::vector<TokenId>{'a', kEndId, 'b'}));
  EXPECT_EQ(result.body()["response"], "<think>x</think> y");
  EXPECT_FALSE(result.body().contains("context"));
}

TEST(OllamaGenerate, ModelsWithoutAChatTemplateContinueThePrompt) {
  const ServedFolder folder;
  ServedModel model = folder.model;
  auto tokenizer = text::Tokenizer::load(small_folder_without_template());
  ASSERT_TRUE(tokenizer.ok());
  model.tokenizer = &*tokenizer;
  describe_templates(model);
  const Json body = {{"model", "small"}, {"system", "S"}, {"prompt", "ab"}, {"stream", false}};
  const Exchange result = exchange_by(prepare_ollama_generate, model, body, {says("cd")});
  ASSERT_FALSE(result.error) << result.error->message;
  EXPECT_EQ(result.requests[0].prompt, bytes("S\nab"));
  EXPECT_EQ(result.body()["response"], "cd");
}

TEST(OllamaGenerate, FormatsAreShapesOfTheAnswer) {
  const ServedFolder folder;
  Json body = {{"model", "small"}, {"prompt", "Hi"}, {"format", "json"}};
  EXPECT_EQ(
      exchange_by(prepare_ollama_generate, folder.model, body, {says("{}")}).structured_output.kind,
      StructuredOutput::Kind::kJsonObject);
  body["format"] = {{"type", "array"}};
  const Exchange result = exchange_by(prepare_ollama_generate, folder.model, body, {says("[]")});
  EXPECT_EQ(result.structured_output.schema, body["format"]);
  EXPECT_EQ(result.structured_output.param, "format");
}

TEST(OllamaGenerate, ThePromptCanBeShownInsteadOfAnswered) {
  const ServedFolder folder;
  const Json body = {{"model", "small"}, {"prompt", "Hi"}, {"_debug_render_only", true}};
  const Exchange result = exchange_by(prepare_ollama_generate, folder.model, body, {});
  EXPECT_EQ(result.body()["_debug_info"]["rendered_template"], "<|begin|>|user|Hi|assistant|");
  EXPECT_TRUE(result.requests.empty());
}

TEST(OllamaModels, AreDescribedByTheirFacts) {
  ServedFolder folder(thinking_template());
  folder.model.generation.temperature = 0.6;
  folder.model.hidden_size = 384;
  const OllamaModel facts = ollama_model(
      folder.model,
      R"({"architecture": "LlamaForCausalLM", "parameters": 1234567890, "bytes": 99, "weights": "floats",
          "dtypes": "BF16", "num_hidden_layers": 4, "hidden_size": 384})",
      "abc");
  const Json tags = Json::parse(ollama_tags_json(folder.model, facts));
  ASSERT_EQ(tags["models"].size(), 2u);
  const Json& first = tags["models"][0];
  EXPECT_EQ(first["name"], "small:latest");
  EXPECT_EQ(first["size"], 99);
  EXPECT_EQ(first["details"]["parameter_size"], "1.2B");
  EXPECT_EQ(first["details"]["quantization_level"], "BF16");
  EXPECT_EQ(first["modified_at"], "2023-11-14T22:13:20.000000Z");
  EXPECT_EQ(Json::parse(ollama_ps_json(folder.model, facts))["models"][0]["context_length"], 4096);
  const Json shown =
      Json::parse(*ollama_show_json(folder.model, facts, R"({"name": "alias:latest"})"));
  EXPECT_EQ(shown["model_info"]["llama.embedding_length"], 384);
  EXPECT_EQ(shown["model_info"]["llama.context_length"], 4096);
  EXPECT_EQ(shown["template"], thinking_template());
  EXPECT_EQ(shown["capabilities"],
            Json::parse(R"(["completion", "tools", "thinking", "embedding"])"));
  EXPECT_TRUE(shown["parameters"].get<std::string>().starts_with("temperature"));
  EXPECT_EQ(ollama_show_json(folder.model, facts, R"({"model": "x"})").error().status, 404);
  EXPECT_EQ(ollama_show_json(folder.model, facts, "{}").error().message,
            "model: model is required");
}

// A description that lacks everything, as other programs may pass it.
TEST(OllamaModels, MayLackFacts) {
  const ServedFolder folder;
  for (const char* description : {"{}", "", "[1]"}) {
    const OllamaModel facts = ollama_model(folder.model, description, "abc");
    EXPECT_EQ(Json::parse(ollama_tags_json(folder.model, facts))["models"][0]["size"], 0);
  }
}

}  // namespace
}  // namespace neuronmm::serve
