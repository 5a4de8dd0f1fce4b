// Tests how the requests of Ollama's protocol are read: options, messages, formats, and errors that
// name the field.

#include "serve/requests/ollama_request.h"

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

OllamaRequest parsed_chat(const char* body) {
  auto request = parse_ollama_chat(body);
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request.ok() ? *std::move(request) : OllamaRequest();
}

OllamaRequest parsed_generate(const char* body) {
  auto request = parse_ollama_generate(body);
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request.ok() ? *std::move(request) : OllamaRequest();
}

std::string error_of_generate(const std::string& fields) {
  const auto request = parse_ollama_generate(R"({"model": "m", "prompt": "a", )" + fields + "}");
  return request.ok() ? "" : request.error().message;
}

std::string error_of_option(const std::string& option) {
  return error_of_generate("\"options\": {" + option + "}");
}

TEST(OllamaOptions, BecomeParametersOfTheAnswer) {
  const OllamaRequest request = parsed_generate(R"({"model": "m", "prompt": "a", "options": {
    "temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.1, "repeat_penalty": 1.1, "repeat_last_n": -1,
    "presence_penalty": 1.5, "frequency_penalty": -3, "seed": 42, "num_predict": 7, "stop": ["x", ""],
    "num_ctx": 2048, "num_gpu": 99, "num_thread": 4, "use_mmap": true, "typical_p": 1.0, "mirostat": 0,
    "mirostat_tau": 5, "tfs_z": 1, "penalize_newline": true, "num_keep": 5, "low_vram": null}})");
  const GenerationParameters& fields = request.chat.parameters;
  EXPECT_EQ(fields.temperature, 0.5);
  EXPECT_EQ(fields.top_k, 40);
  EXPECT_EQ(fields.top_p, 0.9);
  EXPECT_EQ(fields.min_p, 0.1);
  EXPECT_EQ(fields.repeat_penalty, 1.1);
  EXPECT_EQ(fields.repeat_last_n, -1);
  EXPECT_EQ(fields.presence_penalty, 1.5);
  EXPECT_EQ(fields.frequency_penalty, -3.0);
  EXPECT_EQ(fields.seed, 42u);
  EXPECT_EQ(fields.max_tokens, 7);
  EXPECT_EQ(fields.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(fields.stream);
  EXPECT_TRUE(fields.unknown_fields.empty());
}

TEST(OllamaOptions, AbsentOnesAreLeftToTheModel) {
  for (const char* body :
       {R"({"model": "m", "prompt": "a"})", R"({"model": "m", "prompt": "a", "options": null})",
        R"({"model": "m", "prompt": "a", "options": {"seed": -1}})"}) {
    const GenerationParameters fields = parsed_generate(body).chat.parameters;
    EXPECT_FALSE(fields.temperature || fields.top_k || fields.top_p || fields.min_p ||
                 fields.repeat_penalty || fields.seed || fields.max_tokens)
        << body;
  }
  for (const char* limit : {"-2", "-1", "0"}) {
    const std::string body =
        fmt::format(R"({{"model": "m", "prompt": "a", "options": {{"num_predict": {}}}}})", limit);
    EXPECT_EQ(parsed_generate(body.c_str()).chat.parameters.max_tokens, kNoTokenLimit);
  }
}

TEST(OllamaOptions, UnknownAndUnsupportedOnesAreRefusedByName) {
  EXPECT_EQ(error_of_option(R"("temprature": 1)"), "options.temprature: Ollama has no such option");
  EXPECT_TRUE(error_of_option(R"("typical_p": 1.5)").starts_with("options.typical_p: expected"));
  EXPECT_TRUE(error_of_option(R"("mirostat": 2)").starts_with("options.mirostat: expected 0"));
  EXPECT_TRUE(error_of_option(R"("tfs_z": 0.5)").starts_with("options.tfs_z: expected 1"));
  EXPECT_EQ(error_of_option(R"("repeat_last_n": 64)"), "");
  EXPECT_EQ(error_of_option(R"("repeat_last_n": 64, "repeat_penalty": 1.0)"), "");
  EXPECT_EQ(error_of_option(R"("repeat_last_n": 0, "repeat_penalty": 1.3)"), "");
  EXPECT_EQ(error_of_option(R"("repeat_last_n": 64, "repeat_penalty": 1.1, "typical_p": 0.5)"), "");
  EXPECT_TRUE(
      error_of_option(R"("repeat_last_n": -2)").starts_with("options.repeat_last_n: expected"));
  for (const char* wrong :
       {R"("temperature": "hot")", R"("top_k": 1.5)", R"("top_p": 2)", R"("seed": "x")",
        R"("num_predict": -3)", R"("stop": "x")", R"("stop": [1])", R"("penalize_newline": 1)"}) {
    const std::string name = std::string(wrong).substr(1, std::string(wrong).find('"', 1) - 1);
    EXPECT_TRUE(error_of_option(wrong).starts_with("options." + name + ": expected"))
        << error_of_option(wrong);
  }
}

TEST(OllamaRequests, ErrorsNameTheField) {
  EXPECT_TRUE(error_of_generate(R"("options": 3)").starts_with("options: expected an object"));
  EXPECT_TRUE(error_of_generate(R"("format": "xml")").starts_with("format: expected \"json\""));
  EXPECT_TRUE(error_of_generate(R"("think": "hard")").starts_with("think: expected true"));
  EXPECT_TRUE(error_of_generate(R"("suffix": 1)").starts_with("suffix: expected a string"));
  EXPECT_TRUE(
      error_of_generate(R"("suffix": "b", "system": "s")").starts_with("suffix: expected no"));
  EXPECT_TRUE(error_of_generate(R"("template": "b")").starts_with("template: not supported"));
  EXPECT_TRUE(error_of_generate(R"("images": ["b"])").starts_with("images: not supported"));
  EXPECT_TRUE(error_of_generate(R"("context": "b")").starts_with("context: expected an array"));
  EXPECT_TRUE(error_of_generate(R"("keep_alive": {})").starts_with("keep_alive: expected"));
  EXPECT_TRUE(error_of_generate(R"("raw": true, "system": "s")").starts_with("raw: expected no"));
  EXPECT_TRUE(error_of_generate(R"("top_logprobs": 21)").starts_with("top_logprobs: expected"));
  EXPECT_EQ(error_of_generate(R"("suffix": "", "template": "", "images": [], "format": "")"), "");
  EXPECT_EQ(parse_ollama_chat("{}").error().message, "model: model is required");
}

TEST(OllamaRequests, PromptAndSystemBecomeMessages) {
  const OllamaRequest request = parsed_generate(
      R"({"model": "m", "system": "s", "prompt": "a", "stream": false, "context": [1, 2],
          "format": {"type": "object"}, "think": "low", "logprobs": true, "top_logprobs": 2, "other": 1})");
  EXPECT_EQ(
      request.chat.conversation.messages,
      Json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}])"));
  EXPECT_EQ(request.context, (std::vector<TokenId>{1, 2}));
  EXPECT_FALSE(request.chat.parameters.stream);
  EXPECT_EQ(request.chat.parameters.logprobs, 2);
  EXPECT_EQ(request.chat.parameters.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(request.chat.conversation.template_kwargs,
            Json::parse(R"({"enable_thinking": true, "reasoning_effort": "low"})"));
  EXPECT_EQ(request.chat.parameters.unknown_fields, std::vector<std::string>{"other"});
  EXPECT_EQ(parsed_generate(R"({"model": "m", "prompt": "a", "raw": true})").raw_prompt, "a");
}

TEST(OllamaRequests, EmptyOnesLoadOrUnload) {
  EXPECT_TRUE(parsed_chat(R"({"model": "m"})").empty);
  EXPECT_TRUE(parsed_chat(R"({"model": "m", "messages": []})").empty);
  EXPECT_TRUE(parsed_generate(R"({"model": "m"})").empty);
  for (const char* zero : {"0", "0.0", "\"0\"", "\"0s\"", "\"0h0m\""}) {
    const std::string body = fmt::format(R"({{"model": "m", "keep_alive": {}}})", zero);
    EXPECT_TRUE(parsed_chat(body.c_str()).unloads) << zero;
  }
  for (const char* other : {"-1", "300", "\"5m\"", "\"-1\"", "\"\"", "\"m\"", "null"}) {
    const std::string body = fmt::format(R"({{"model": "m", "keep_alive": {}}})", other);
    EXPECT_FALSE(parsed_chat(body.c_str()).unloads) << other;
  }
}

// Ollama's clients send calls back without ids, and results only with the name of their tool.
TEST(OllamaMessages, CallsAndResultsGetIdsThatBelongTogether) {
  const OllamaRequest request = parsed_chat(R"({"model": "m", "messages": [
    {"role": "USER", "content": "a"},
    {"role": "assistant", "thinking": "hm", "tool_calls": [
      {"function": {"name": "f", "arguments": {"x": 1}}}, {"function": {"name": "g", "arguments": {}}}]},
    {"role": "tool", "tool_name": "g", "content": "two"}, {"role": "tool", "content": "one"},
    {"role": "assistant", "content": "b", "tool_calls": [
      {"id": "own", "type": "function", "function": {"index": 0, "name": "f"}}]},
    {"role": "tool", "name": "f", "tool_call_id": "own", "content": "three"}]})");
  EXPECT_EQ(request.chat.conversation.messages, Json::parse(R"([
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
      {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
      {"id": "call00002", "type": "function", "function": {"name": "g", "arguments": {}}}]},
    {"role": "tool", "content": "two", "tool_call_id": "call00002", "name": "g"},
    {"role": "tool", "content": "one", "tool_call_id": "call00001", "name": "f"},
    {"role": "assistant", "content": "b", "tool_calls": [
      {"id": "own", "type": "function", "function": {"name": "f", "arguments": {}}}]},
    {"role": "tool", "content": "three", "tool_call_id": "own", "name": "f"}])"));
}

TEST(OllamaMessages, ErrorsNameThePlace) {
  const auto error_of = [](const char* message) {
    const auto request =
        parse_ollama_chat(fmt::format(R"({{"model": "m", "messages": [{}]}})", message));
    return request.ok() ? "" : request.error().message;
  };
  EXPECT_TRUE(error_of(R"({"role": "user", "content": 3})").starts_with("messages[0].content:"));
  EXPECT_TRUE(error_of(R"({"role": "user", "content": "a", "images": ["x"]})")
                  .starts_with("messages[0].images: not supported"));
  EXPECT_TRUE(error_of(R"({"content": "a"})").starts_with("messages[0].role: expected"));
  EXPECT_TRUE(error_of(R"({"role": "assistant", "tool_calls": [{"function": {"name": "f",
      "arguments": "{}"}}]})")
                  .starts_with("messages[0].tool_calls[0].function.arguments: expected an object"));
  EXPECT_TRUE(error_of("5").starts_with("messages[0]: expected an object"));
}

TEST(OllamaMessages, AnAnswerThatComesLastIsContinued) {
  const auto conversation = [](const char* last) {
    return parsed_chat(
               fmt::format(R"({{"model": "m", "messages": [{{"role": "user"}}, {}]}})", last)
                   .c_str())
        .chat.conversation;
  };
  EXPECT_EQ(conversation(R"({"role": "assistant", "content": "b"})").continue_field, "content");
  EXPECT_TRUE(conversation(R"({"role": "assistant", "content": ""})").add_generation_prompt);
  EXPECT_TRUE(conversation(R"({"role": "tool", "content": "b"})").add_generation_prompt);
}

}  // namespace
}  // namespace neuronmm::serve
