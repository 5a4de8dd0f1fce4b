// Tests that the OpenAPI description agrees with the code that reads requests and writes answers.
// Both must have the same fields. Values of every kind in every place must be valid for both or for
// neither, as an independent validator of JSON schemas decides.

#include "serve/protocol/openapi.h"

#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "serve/grammar/schema_validator.h"
#include "serve/protocol/fake_server.h"
#include "serve/protocol/llama_cpp_completion.h"
#include "serve/protocol/ollama_generation.h"
#include "serve/protocol/ollama_models.h"
#include "serve/protocol/prepared_embedding.h"
#include "serve/requests/anthropic_request.h"
#include "serve/requests/chat_request.h"
#include "serve/requests/embedding_request.h"
#include "serve/requests/foreign_fields.h"
#include "serve/requests/llama_cpp_request.h"
#include "serve/requests/ollama_request.h"
#include "serve/requests/responses_api_request.h"
#include "serve/requests/text_completion_request.h"

namespace neuronmm::serve {
namespace {

const Json& description() {
  static const Json parsed = Json::parse(openapi_json());
  return parsed;
}

const Json& schema_of(const std::string& name) {
  return description()["components"]["schemas"].at(name);
}

// Returns the schemas that `schema` consists of, including itself.
std::vector<const Json*> parts_of(const Json& schema) {
  std::vector<const Json*> parts = {&schema};
  const auto add = [&](const Json& part) {
    for (const Json* each : parts_of(part)) parts.push_back(each);
  };
  if (schema.contains("$ref"))
    add(description().at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))));
  for (const char* several : {"allOf", "anyOf"}) {
    if (!schema.contains(several)) continue;
    for (const Json& part : schema[several]) add(part);
  }
  return parts;
}

using Names = std::set<std::string, std::less<>>;

Names properties_of(const std::string& name) {
  Names names;
  for (const Json* part : parts_of(schema_of(name))) {
    if (!part->contains("properties")) continue;
    for (const auto& item : part->at("properties").items()) names.insert(item.key());
  }
  return names;
}

std::vector<Json> parsed_values() {
  std::vector<Json> list = {std::string(1025, 'a')};
  for (const char* text : {"null",
                           "true",
                           "false",
                           "0",
                           "1",
                           "-1",
                           "2",
                           "20",
                           "21",
                           "129",
                           "1.0",
                           "1.5",
                           "-0.5",
                           "100.5",
                           "101",
                           "2147483647",
                           "2147483648",
                           "10000000000000000000",
                           "1e300",
                           "\"\"",
                           "\"a\"",
                           "\"none\"",
                           "\"text\"",
                           "\"assistant\"",
                           "\"tool\"",
                           "[]",
                           "[0]",
                           "[\"a\"]",
                           "[[0]]",
                           "[[]]",
                           "[1.0, 2]",
                           "[1, \"a\"]",
                           "[\"text\"]",
                           "[{}]",
                           "{}",
                           "{\"a\": 1}",
                           "{\"5\": 100}",
                           "{\"5\": 101}",
                           "{\"-0\": 1}",
                           "{\"type\": \"text\"}",
                           "{\"type\": \"json_object\"}",
                           "{\"type\": \"json_schema\"}"})
    list.push_back(Json::parse(text));
  return list;
}

const std::vector<Json>& values() {
  static const std::vector<Json> parsed = parsed_values();
  return parsed;
}

// Returns bodies that differ from `example` in one place.
std::vector<Json> variations(const Json& example, const Names& names) {
  std::vector<Json> bodies = {example};
  const auto put = [&](const Json::json_pointer& place) {
    for (const Json& value : values()) {
      bodies.push_back(example);
      bodies.back()[place] = value;
    }
  };
  std::set<std::string> places;  // of all values inside the example
  const Json leaves = example.flatten();
  for (const auto& [text, unused] : leaves.items()) {
    for (Json::json_pointer place(text); !place.empty(); place.pop_back()) {
      places.insert(place.to_string());
    }
  }
  for (const std::string& text : places) {
    const Json::json_pointer place(text);
    put(place);
    Json& parent = bodies.emplace_back(example)[place.parent_pointer()];
    if (parent.is_array())
      parent.erase(std::stoul(place.back()));
    else
      parent.erase(place.back());
  }
  for (const std::string& name : names) {
    if (!places.contains("/" + name)) put(Json::json_pointer("/" + name));
  }
  return bodies;
}

// Returns whether an error is about a rule that the description states only in words.
bool is_said_in_words(const std::string& message) {
  for (const char* words :
       {"expected only beside", "to choose from", "expected a function of", "JSON of an object",
        "a JSON schema", "malformed JSON", "expected the order", "false beside",
        "the same as \"n\"", "beside a call that must be made", "expected one shape",
        "an integer of more than 64 bits", "token ids below", "or a text and a number or false",
        "Ollama has no such option", "model is required", "texts that are not empty",
        "no system and no context beside it"}) {
    if (message.find(words) != std::string::npos) return true;
  }
  return false;
}

// Returns the names without the fields of other servers, which are the same in every API.
Names own_names(Names names) {
  for (const RequestField& field : fields_of_other_servers()) names.erase(field.name);
  return names;
}

// Varies the values in the examples and, for Fields::kAll, puts every field of the request there.
// The fields of other servers are put into the first example only, to save time.
enum class Fields { kAll, kOfExample };

template <typename Parse>
void expect_same_verdicts(const std::string& name, const std::vector<Json>& examples, Parse parse,
                          Fields fields = Fields::kAll) {
  const Json& schema = schema_of(name);
  const Names names = fields == Fields::kAll ? properties_of(name) : Names{};
  int taken = 0, refused = 0;
  for (const Json& example : examples) {
    EXPECT_TRUE(grammar::validates(schema, example, description())) << example;
    const bool is_first = &example == &examples.front();
    for (const Json& body : variations(example, is_first ? names : own_names(names))) {
      const auto parsed = parse(body.dump());
      const std::string message = parsed.ok() ? "" : parsed.error().message;
      if (is_said_in_words(message) || (!parsed.ok() && parsed.error().status != 400)) continue;
      EXPECT_EQ(parsed.ok(), grammar::validates(schema, body, description()))
          << name << " " << message << "\n"
          << body;
      ++(parsed.ok() ? taken : refused);
    }
  }
  EXPECT_GT(taken, 20);
  EXPECT_GT(refused, 20);
}

Json chat_with_tools() {
  return Json::parse(R"({"model": "small", "messages": [
    {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}], "name": "n"},
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": null, "reasoning_content": "r", "reasoning": null, "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "assistant", "refusal": "no", "function_call": null, "audio": null},
    {"role": "tool", "content": "c", "tool_call_id": "1"}, {"role": "ipython", "content": ["d"]}],
    "tools": [{"type": "function", "function": {
      "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}}, "documents": [{"text": "t"}],
    "parallel_tool_calls": false, "chat_template_kwargs": {"a": 1}, "reasoning_effort": "none"})");
}

Json chat_with_a_shape() {
  return Json::parse(R"({"messages": [{"role": "user", "content": "x"}], "stream": true,
    "stream_options": {"include_usage": true, "continuous_usage_stats": false}, "logprobs": true, "top_logprobs": 2,
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "description": "d", "strict": true,
      "schema": {"type": "object"}}}, "logit_bias": {"5": 1}, "stop": ["a", "b"], "stop_token_ids": [1, 2],
    "modalities": ["text"]})");
}

// Returns chats that express the same as the first two examples in other forms.
std::vector<Json> other_chats() {
  Json allowed = chat_with_tools();
  allowed["tool_choice"] =
      Json::parse(R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto",
    "tools": [{"type": "function", "function": {"name": "f"}}]}})");
  const Json plain = {{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  std::vector<Json> chats = {allowed};
  for (const char* shape :
       {R"({"response_format": {"type": "json_schema", "schema": {"type": "object"}}})",
        R"({"response_format": {"type": "json_object", "schema": {"type": "object"}}})",
        R"({"structured_outputs": {"choice": ["a"]}})", R"({"guided_choice": ["a"]})"}) {
    chats.push_back(plain);
    chats.back().update(Json::parse(shape));
  }
  return chats;
}

Json response_with_items() {
  return Json::parse(R"({"instructions": "i", "input": [
    {"role": "developer", "content": "d"}, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}],
     "content": [{"type": "reasoning_text", "text": "t"}]},
    {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "o"}],
    "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}],
    "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "reasoning": {"effort": "low"},
    "include": ["message.output_text.logprobs"], "top_logprobs": 2, "background": false})");
}

std::vector<Json> other_responses() {
  Json allowed = response_with_items();
  allowed["tool_choice"] = Json::parse(
      R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]})");
  Json shaped = Json::parse(R"({"input": "x", "stream": true, "text": {"format": {
    "type": "json_schema", "name": "n", "strict": true, "schema": {"type": "object"}}}})");
  return {allowed, shaped};
}

Json messages_with_blocks() {
  return Json::parse(
      R"({"model": "small", "max_tokens": 9, "system": [{"type": "text", "text": "s"}], "messages": [
    {"role": "user", "content": [{"type": "text", "text": "x"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
      {"type": "redacted_thinking", "data": "d"}, {"type": "text", "text": "a"},
      {"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "is_error": true, "content": [
      {"type": "text", "text": "r"}, {"type": "tool_reference", "tool_name": "g"}]}]},
    {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}]}],
    "tools": [{"type": "custom", "name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true,
      "defer_loading": false}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
    "thinking": {"type": "enabled", "budget_tokens": 1024}, "stop_sequences": ["a"]})");
}

std::vector<Json> other_messages() {
  Json any = messages_with_blocks();
  any["tool_choice"] = {{"type", "any"}};
  Json shaped = Json::parse(
      R"({"messages": [{"role": "user", "content": "x"}], "stream": true, "output_config": {
    "effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}})");
  return {any, shaped};
}

TEST(OpenApi, AllowsExactlyTheRequestsThatAreAccepted) {
  expect_same_verdicts("ChatCompletionRequest", {chat_with_tools(), chat_with_a_shape()},
                       parse_chat_request);
  expect_same_verdicts("ChatCompletionRequest", other_chats(), parse_chat_request,
                       Fields::kOfExample);
  expect_same_verdicts("ResponseRequest", {response_with_items()}, parse_responses_api_request);
  expect_same_verdicts("ResponseRequest", other_responses(), parse_responses_api_request,
                       Fields::kOfExample);
  expect_same_verdicts("MessagesRequest", {messages_with_blocks()}, parse_anthropic_request);
  expect_same_verdicts("MessagesRequest", other_messages(), parse_anthropic_request,
                       Fields::kOfExample);
  expect_same_verdicts("CompletionRequest",
                       {Json::parse(R"({"prompt": [[1, 2], [3]], "echo": true, "stream": true})"),
                        Json::parse(R"({"prompt": ["a", "b"], "echo": true, "logprobs": 3})")},
                       parse_text_completion_request);
  expect_same_verdicts(
      "LlamaCppCompletionRequest",
      {Json::parse(R"({"prompt": [[1, "a"], {"prompt_string": "b"}], "n_predict": 4, "stream": true,
        "response_fields": ["content"]})")},
      parse_llama_cpp_completion, Fields::kOfExample);
  expect_same_verdicts(
      "LlamaCppInfillRequest",
      {Json::parse(R"({"input_prefix": "x", "input_suffix": ["y", 1], "input_extra": [
        {"filename": "f", "text": "t"}], "prompt": "p", "n_cmpl": 2})")},
      parse_llama_cpp_infill, Fields::kOfExample);
  const ServedFolder folder;
  const auto by = [&](auto answer) {
    return
        [&folder, answer](const std::string& body) { return answer(folder.model, body, nullptr); };
  };
  expect_same_verdicts("TokenizeRequest",
                       {Json::parse(R"({"prompt": "a"})"),
                        Json::parse(R"({"messages": [{"role": "user", "content": "x"}]})")},
                       by(tokenize_response));
  expect_same_verdicts("DetokenizeRequest", {Json::parse(R"({"tokens": [1, 2]})")},
                       by(detokenize_response));
  expect_same_verdicts("ApplyTemplateRequest", {chat_with_tools()}, by(apply_template_response));
}

Json ollama_chat() {
  return Json::parse(
      R"({"model": "m", "messages": [{"role": "system", "content": "s", "images": null},
    {"role": "assistant", "content": "a", "thinking": "t", "tool_calls": [
      {"id": "1", "function": {"name": "f", "arguments": {"a": 1}}}]},
    {"role": "tool", "tool_name": "f", "tool_call_id": "1", "name": "f", "content": "c"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "stream": false, "format": {"type": "object"}, "think": "low", "logprobs": true, "top_logprobs": 2,
    "options": {"temperature": 0.5, "seed": 1, "stop": ["a"], "num_ctx": 5, "top_k": 3}})");
}

Json ollama_prompt() {
  return Json::parse(
      R"({"model": "m", "prompt": "a", "system": "s", "context": [1, 2], "format": "json",
    "think": true, "truncate": false, "suffix": "", "keep_alive": "5m"})");
}

TEST(OpenApi, AllowsExactlyTheRequestsOfOllamaAndForEmbeddingsThatAreAccepted) {
  expect_same_verdicts("OllamaChatRequest", {ollama_chat()}, parse_ollama_chat);
  expect_same_verdicts("OllamaGenerateRequest", {ollama_prompt()}, parse_ollama_generate);
  const auto embeddings = [](const char* name, EmbeddingForm form, const char* example) {
    expect_same_verdicts(name, {Json::parse(example)}, [form](const std::string& body) {
      return parse_embedding_request(form, body);
    });
  };
  embeddings("EmbeddingRequest", EmbeddingForm::kOpenAi,
             R"({"input": ["a", [1, 2]], "encoding_format": "base64", "dimensions": 2})");
  embeddings("LlamaEmbeddingRequest", EmbeddingForm::kLlama,
             R"({"content": ["a", [1, 2]], "embd_normalize": 1})");
  embeddings("OllamaEmbedRequest", EmbeddingForm::kOllama,
             R"({"model": "m", "input": ["a"], "options": {"num_ctx": 1}})");
  embeddings("OllamaEmbeddingsRequest", EmbeddingForm::kOllamaOld,
             R"({"model": "m", "prompt": "a"})");
}

// A request: its name in the description, its table, a valid body, and a function that returns the
// error of a body.
struct DescribedRequest {
  std::string name;
  const RequestTable& table;
  Json example;
  std::function<std::optional<ApiError>(const std::string&)> error_of;
};

template <typename Parse>
DescribedRequest described(std::string name, const RequestTable& table, const char* example,
                           Parse parse) {
  return {std::move(name), table, Json::parse(example),
          [parse](const std::string& body) -> std::optional<ApiError> {
            const auto parsed = parse(body);
            return parsed.ok() ? std::nullopt : std::optional(parsed.error());
          }};
}

auto embeddings_by(EmbeddingForm form) {
  return [form](const std::string& body) { return parse_embedding_request(form, body); };
}

std::vector<DescribedRequest> described_requests(const ServedModel& model) {
  const auto by = [&model](auto respond) {
    return [&model, respond](const std::string& body) { return respond(model, body, nullptr); };
  };
  const char* chat = R"({"messages": [{"role": "user", "content": "x"}], "logprobs": true})";
  const char* prompt = R"({"messages": [{"role": "user", "content": "x"}]})";
  return {
      described("ChatCompletionRequest", chat_completion_table(), chat, parse_chat_request),
      described("ResponseRequest", responses_api_table(), R"({"input": "x"})",
                parse_responses_api_request),
      described("MessagesRequest", anthropic_table(), prompt, parse_anthropic_request),
      described("CountTokensRequest", anthropic_prompt_table(), prompt, by(count_tokens_response)),
      described("CompletionRequest", text_completion_table(), R"({"prompt": "x"})",
                parse_text_completion_request),
      described("LlamaCppCompletionRequest", llama_cpp_completion_table(), R"({"prompt": "x"})",
                parse_llama_cpp_completion),
      described("LlamaCppInfillRequest", llama_cpp_infill_table(),
                R"({"input_prefix": "x", "input_suffix": "y"})", parse_llama_cpp_infill),
      described("TokenizeRequest", tokenize_table(), R"({"prompt": "x"})", by(tokenize_response)),
      described("DetokenizeRequest", detokenize_table(), R"({"tokens": [1]})",
                by(detokenize_response)),
      described("ApplyTemplateRequest", chat_prompt_table(), prompt, by(apply_template_response)),
      described("EmbeddingRequest", embedding_table(EmbeddingForm::kOpenAi), R"({"input": "x"})",
                embeddings_by(EmbeddingForm::kOpenAi)),
      described("LlamaEmbeddingRequest", embedding_table(EmbeddingForm::kLlama),
                R"({"content": "x"})", embeddings_by(EmbeddingForm::kLlama)),
      described("OllamaChatRequest", ollama_chat_table(), R"({"model": "m"})", parse_ollama_chat),
      described("OllamaGenerateRequest", ollama_generate_table(), R"({"model": "m"})",
                parse_ollama_generate),
      described("OllamaEmbedRequest", embedding_table(EmbeddingForm::kOllama), R"({"model": "m"})",
                embeddings_by(EmbeddingForm::kOllama)),
      described("OllamaEmbeddingsRequest", embedding_table(EmbeddingForm::kOllamaOld),
                R"({"model": "m"})", embeddings_by(EmbeddingForm::kOllamaOld)),
      described("OllamaShowRequest", ollama_show_table(), R"({"model": "small"})",
                by([](const ServedModel& shown, const std::string& body, std::nullptr_t) {
                  return ollama_show_json(shown, OllamaModel(), body);
                })),
  };
}

TEST(OpenApi, ListsExactlyTheFieldsOfEachTable) {
  const ServedFolder folder;
  for (const DescribedRequest& request : described_requests(folder.model)) {
    SCOPED_TRACE(request.name);
    Names names;
    for (const RequestField& field : request.table.fields()) names.insert(field.name);
    Names listed;
    for (const auto& item : schema_of(request.name)["properties"].items())
      listed.insert(item.key());
    EXPECT_EQ(listed, names);
  }
}

TEST(OpenApi, EveryListedFieldIsRead) {
  const ServedFolder folder;
  for (const DescribedRequest& request : described_requests(folder.model)) {
    for (const RequestField& field : request.table.fields()) {
      using Type = RequestField::Type;
      const bool counts = field.type == Type::kInteger || field.type == Type::kNumber;
      Json body = request.example;
      body[field.name] = counts ? Json("x") : Json(5);
      // A number is a valid duration.
      if (field.name == "keep_alive") body[field.name] = true;
      EXPECT_EQ(request.error_of(body.dump()).has_value(), field.type != Type::kIgnored)
          << request.name << " " << body;
    }
  }
}

// Returns the values at both ends of a field's range and just outside, if 64 bits can hold them.
std::vector<Json> around_range(const RequestField& field) {
  if (field.type == RequestField::Type::kNumber)
    return {field.least, std::nextafter(field.least, -1e9), field.most,
            std::nextafter(field.most, 1e9)};
  std::vector<Json> values = {field.lowest, field.highest};
  if (field.lowest != INT64_MIN) values.push_back(field.lowest - 1);
  if (field.highest != INT64_MAX) values.push_back(field.highest + 1);
  return values;
}

TEST(OpenApi, DescribesTheRangesThatReadersEnforce) {
  const ServedFolder folder;
  int taken = 0, refused = 0;
  for (const DescribedRequest& request : described_requests(folder.model)) {
    for (const RequestField& field : request.table.fields()) {
      using Type = RequestField::Type;
      if (field.type != Type::kInteger && field.type != Type::kNumber) continue;
      for (const Json& value : around_range(field)) {
        Json body = request.example;
        body[field.name] = value;
        const auto error = request.error_of(body.dump());
        if (error && is_said_in_words(error->message)) continue;
        EXPECT_EQ(!error, grammar::validates(schema_of(request.name), body, description()))
            << request.name << " " << body << " " << (error ? error->message : "");
        ++(error ? refused : taken);
      }
    }
  }
  EXPECT_GT(taken, 50);
  EXPECT_GT(refused, 50);
}

// Expects that every key of `value` is described.
void expect_described(const std::vector<const Json*>& schemas, const Json& value) {
  std::vector<const Json*> parts;
  for (const Json* schema : schemas) {
    for (const Json* part : parts_of(*schema)) parts.push_back(part);
  }
  for (const auto& item : value.items()) {
    std::vector<const Json*> inner;
    bool open = false;
    for (const Json* part : parts) {
      const Json properties = part->value("properties", Json::object());
      if (value.is_object() && properties.contains(item.key()))
        inner.push_back(&part->at("properties").at(item.key()));
      if (value.is_array() && part->contains("items")) inner.push_back(&part->at("items"));
      open = open || part->contains("additionalProperties");
    }
    EXPECT_TRUE(open || !inner.empty()) << item.key() << " in " << value;
    if (item.value().is_structured() && !open) expect_described(inner, item.value());
  }
}

void expect_answer(const std::string& name, const Json& answer) {
  EXPECT_TRUE(grammar::validates(schema_of(name), answer, description())) << name << " " << answer;
  expect_described({&schema_of(name)}, answer);
}

void expect_answers(const std::string& name, Json body, const std::string& text) {
  const ServedFolder folder;
  expect_answer(name, exchange(folder.model, body, {says(text)}).body());
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const auto chunks = exchange(folder.model, body, {says(text)}).sink->chunks();
  EXPECT_GT(chunks.size(), 3u);
  for (const Json& chunk : chunks) expect_answer(name + "Chunk", chunk);
}

TEST(OpenApi, AnswersMatchTheDescription) {
  Json chat = chat_with_tools();
  chat["tool_choice"] = "auto";
  chat["return_token_ids"] = true;
  expect_answers("ChatCompletion", chat,
                 "I look.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>");
  Json logprobs = Json::parse(R"({"messages": [{"role": "user", "content": "x"}]})");
  logprobs["logprobs"] = true;
  logprobs["top_logprobs"] = 2;
  expect_answers("ChatCompletion", logprobs, "a story");
  expect_answers("Completion", Json::parse(R"({"prompt": "ab", "logprobs": 2, "echo": true, "n": 1,
                                 "return_token_ids": true})"),
                 "a story");
  Json items = response_with_items();
  items["tool_choice"] = "auto";
  const std::string calls =
      "I look.<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
  const ServedFolder folder;
  expect_answer("Response", exchange(folder.model, items, {says(calls)}).body());
  items["stream"] = true;
  const auto events = exchange(folder.model, items, {says(calls)}).sink->typed_events();
  EXPECT_GT(events.size(), 10u);
  for (const Json& event : events) expect_answer("ResponseEvent", event);
  Json blocks = messages_with_blocks();
  blocks.erase("tool_choice");
  expect_answer("MessagesAnswer",
                exchange_by(prepare_anthropic, folder.model, blocks, {says(calls)}).body());
  blocks["stream"] = true;
  const auto streamed = exchange_by(prepare_anthropic, folder.model, blocks, {says(calls)});
  EXPECT_GT(streamed.sink->events.size(), 10u);
  for (const std::string& event : streamed.sink->events)
    expect_answer("MessagesEvent", Json::parse(event.substr(event.find("data: ") + 6)));
  const Json prompt = Json::parse(R"({"prompt": "ab", "n_probs": 2, "return_tokens": true})");
  expect_answer(
      "LlamaCppAnswer",
      exchange_by(prepare_llama_cpp_completion, folder.model, prompt, {says("a story")}).body());
  Json parts = prompt;
  parts.update({{"stream", true}, {"return_progress", true}, {"timings_per_token", true}});
  const auto told =
      exchange_by(prepare_llama_cpp_completion, folder.model, parts, {says("a story")});
  EXPECT_GT(told.sink->events.size(), 5u);
  for (const std::string& event : told.sink->events)
    expect_answer("LlamaCppPart", Json::parse(event.substr(event.find("data: ") + 6)));
  expect_answer("LlamaCppError", Json::parse(llama_cpp_error_json(prompt_too_long("p", 9, 8))));
  expect_answer("MessagesError", Json::parse(anthropic_error_json(queue_full("full", 1))));
  expect_answer("Error", Json::parse(openai_error_json(queue_full("full", 1))));
  expect_answer("Models", Json::parse(models_json(ServedFolder().model)));
}

TEST(OpenApi, AnswersOfOllamaAndEmbeddingsMatchTheDescription) {
  const ServedFolder folder;
  Json body = {{"model", "small"},
               {"messages", {{{"role", "user"}, {"content", "x"}}}},
               {"tools", {tool("f")}},
               {"logprobs", true},
               {"top_logprobs", 2}};
  const char* text = "I look.<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const auto streamed = exchange_by(prepare_ollama_chat, folder.model, body, {says(text)});
  EXPECT_GT(streamed.sink->events.size(), 5u);
  for (const std::string& line : streamed.sink->events)
    expect_answer("OllamaAnswer", Json::parse(line));
  body["stream"] = false;
  expect_answer("OllamaAnswer",
                exchange_by(prepare_ollama_chat, folder.model, body, {says(text)}).body());
  const Json prompt = {{"model", "small"}, {"prompt", "x"}, {"stream", false}};
  expect_answer("OllamaAnswer",
                exchange_by(prepare_ollama_generate, folder.model, prompt, {says("a")}).body());
  expect_answer("OllamaError", Json::parse(ollama_error_json(queue_full("full", 1))));
  const OllamaModel facts = ollama_model(folder.model, R"({"architecture": "llama"})", "abc");
  expect_answer("OllamaModels", Json::parse(ollama_tags_json(folder.model, facts)));
  expect_answer("OllamaModels", Json::parse(ollama_ps_json(folder.model, facts)));
  expect_answer("OllamaVersion", Json::parse(ollama_version_json("1")));
  expect_answer("OllamaModel",
                Json::parse(*ollama_show_json(folder.model, facts, R"({"model": "small"})")));
}

}  // namespace
}  // namespace neuronmm::serve
