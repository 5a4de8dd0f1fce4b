// Tests how the bodies of requests are read, and the errors for wrong fields.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "serve/requests/chat_request.h"

namespace neuronmm::serve {
namespace {

using testing::HasSubstr;

ChatRequest chat(const Json& body) {
  auto request = parse_chat_request(body.dump());
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request.ok() ? *std::move(request) : ChatRequest();
}

TextCompletionRequest completion(const Json& body) {
  auto request = parse_text_completion_request(body.dump());
  EXPECT_TRUE(request.ok()) << request.error().message;
  return request.ok() ? *std::move(request) : TextCompletionRequest();
}

TEST(ChatRequests, HaveOpenAIsDefaults) {
  const ChatRequest request = chat(chat_body());
  EXPECT_EQ(request.parameters.model, "");
  EXPECT_EQ(request.parameters.n, 1);
  EXPECT_FALSE(request.parameters.max_tokens || request.parameters.temperature ||
               request.parameters.top_p || request.parameters.seed || request.parameters.logprobs);
  EXPECT_FALSE(request.parameters.stream || request.parameters.include_usage ||
               request.parameters.echo);
  EXPECT_TRUE(request.parameters.skip_special_tokens && request.tools.parallel);
  EXPECT_EQ(request.tools.choice.kind, ToolChoice::Kind::kNone);
  EXPECT_TRUE(request.conversation.add_generation_prompt);
  EXPECT_TRUE(request.conversation.tools.is_null());
  EXPECT_EQ(request.parameters.response_format.kind, ResponseFormat::Kind::kText);
  EXPECT_EQ(completion(completion_body()).parameters.max_tokens, 16);
}

TEST(ChatRequests, ReadEveryField) {
  Json body = chat_body();
  body.update(Json::parse(R"({"model": "m", "max_tokens": 5, "max_completion_tokens": 6,
    "temperature": 0.5, "top_p": 0.9, "top_k": -1, "min_p": 0.1, "repetition_penalty": 1.1,
    "presence_penalty": -1, "frequency_penalty": 2, "logit_bias": {"5": -100, "7": 1.5}, "n": 3,
    "seed": -2, "stop": ["a", "b"], "stop_token_ids": [3, 4], "include_stop_str_in_output": true,
    "ignore_eos": true, "min_tokens": 2, "logprobs": true, "top_logprobs": 4, "stream": true,
    "stream_options": {"include_usage": true, "continuous_usage_stats": true},
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": true,
                        "schema": {"z": 1, "a": 2}}},
    "user": "u", "cache_salt": "salt", "priority": -3, "return_token_ids": true, "echo": true,
    "add_generation_prompt": false, "continue_final_message": true, "skip_special_tokens": false,
    "chat_template_kwargs": {"enable_thinking": false}, "reasoning_effort": "low",
    "documents": [{"title": "t"}], "wish": 1, "other": null})"));
  const ChatRequest request = chat(body);
  const GenerationParameters& parameters = request.parameters;
  EXPECT_EQ(parameters.model, "m");
  EXPECT_EQ(parameters.max_tokens, 6);
  EXPECT_EQ(parameters.temperature, 0.5);
  EXPECT_EQ(parameters.top_p, 0.9);
  EXPECT_EQ(parameters.top_k, 0);
  EXPECT_EQ(parameters.min_p, 0.1);
  EXPECT_EQ(parameters.repetition_penalty, 1.1);
  EXPECT_EQ(parameters.presence_penalty, -1.0);
  EXPECT_EQ(parameters.frequency_penalty, 2.0);
  ASSERT_EQ(parameters.logit_bias.size(), 2u);
  EXPECT_EQ(parameters.logit_bias[1].id, 7);
  EXPECT_EQ(parameters.logit_bias[1].bias, 1.5);
  EXPECT_EQ(parameters.n, 3);
  EXPECT_EQ(parameters.seed, ~uint64_t{1});
  EXPECT_EQ(parameters.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(parameters.stop_token_ids, (std::vector<TokenId>{3, 4}));
  EXPECT_TRUE(parameters.include_stop_str_in_output && parameters.ignore_eos && parameters.stream &&
              parameters.include_usage && parameters.continuous_usage &&
              parameters.return_token_ids && parameters.echo && !parameters.skip_special_tokens);
  EXPECT_EQ(parameters.min_tokens, 2);
  EXPECT_EQ(parameters.logprobs, 4);
  EXPECT_EQ(parameters.cache_salt, "salt");
  EXPECT_EQ(parameters.priority, -3);
  EXPECT_EQ(parameters.response_format.kind, ResponseFormat::Kind::kJsonSchema);
  EXPECT_EQ(parameters.response_format.schema.dump(), R"({"z":1,"a":2})");
  EXPECT_EQ(parameters.unknown_fields, (std::vector<std::string>{"wish", "other"}));
  EXPECT_FALSE(request.conversation.add_generation_prompt);
  EXPECT_EQ(request.conversation.continue_field, "content");
  EXPECT_EQ(request.conversation.documents.size(), 1u);
  EXPECT_EQ(request.conversation.template_kwargs.dump(),
            R"({"enable_thinking":false,"reasoning_effort":"low"})");
}

TEST(ChatRequests, ReadMessages) {
  const ChatRequest request = chat(Json::parse(R"({"messages": [
    {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "user", "content": "q", "name": "Ann", "odd": 1},
    {"role": "assistant", "content": null, "reasoning": "r", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}},
      {"id": "c2", "type": "function", "function": {"name": "g", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"}]})"));
  EXPECT_EQ(request.conversation.messages.dump(),
            R"([{"role":"developer","content":"a\nb"},{"role":"user","content":"q","name":"Ann"},)"
            R"({"role":"assistant","reasoning_content":"r","tool_calls":[{"id":"c1","type":)"
            R"("function","function":{"name":"f","arguments":{"z":1,"a":2}}},{"id":"c2","type":)"
            R"("function","function":{"name":"g","arguments":{}}}],"content":""},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1"}])");
}

// Agents send back everything that a model wrote.
TEST(ChatRequests, ReadMessagesWithoutContentAndWithCallsThatWereCutOff) {
  const ChatRequest request = chat(Json::parse(R"({"messages": [
    {"role": "user", "content": ["a", {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "output_text", "text": "o"}]},
    {"role": "assistant", "content": null, "reasoning_content": "r"},
    {"role": "assistant"},
    {"role": "assistant", "tool_calls": [
      {"function": {"name": "f", "arguments": "{\"z\": "}}, {"function": {"name": "f", "arguments": "[1]"}},
      {"function": {"name": "f", "arguments": "null"}}]},
    {"role": "tool", "content": null},
    {"role": "function", "name": "f", "content": "42"}]})"));
  EXPECT_EQ(request.conversation.messages.dump(),
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"t\no"},)"
            R"({"role":"assistant","reasoning_content":"r","content":""},)"
            R"({"role":"assistant","content":""},)"
            R"({"role":"assistant","tool_calls":[)"
            R"({"type":"function","function":{"name":"f","arguments":"{\"z\": "}},)"
            R"({"type":"function","function":{"name":"f","arguments":"[1]"}},)"
            R"({"type":"function","function":{"name":"f","arguments":{}}}],"content":""},)"
            R"({"role":"tool","content":""},{"role":"function","content":"42","name":"f"}])");
}

TEST(ChatRequests, ReadTools) {
  Json body = chat_body();
  body["tools"] = {tool("f"), tool("g")};
  EXPECT_EQ(chat(body).tools.choice.kind, ToolChoice::Kind::kAuto);
  EXPECT_EQ(chat(body).conversation.tools, body["tools"]);
  body["tool_choice"] = "none";
  EXPECT_EQ(chat(body).tools.choice.kind, ToolChoice::Kind::kNone);
  EXPECT_TRUE(chat(body).conversation.tools.is_null());
  body["tool_choice"] = "required";
  EXPECT_EQ(chat(body).tools.choice.kind, ToolChoice::Kind::kRequired);
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "g"}}}};
  EXPECT_EQ(chat(body).tools.choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(chat(body).tools.choice.name, "g");
  body["tool_choice"].erase("type");  // the type is optional, as in vLLM and in a tool
  EXPECT_EQ(chat(body).tools.choice.name, "g");
  EXPECT_EQ(chat(body).tools.tools[1].parameters["type"], "object");
}

TEST(ChatRequests, ArgumentsAreAnObjectWhateverTheSchemaSays) {
  const auto schema = [](const char* parameters) {
    Json body = chat_body();
    body["tools"] = Json::array({tool("f")});
    body["tools"][0]["function"]["parameters"] = Json::parse(parameters);
    return chat(body).tools.tools[0].parameters.dump();
  };
  for (const char* nothing : {"null", "{}"})
    EXPECT_EQ(schema(nothing), R"({"type":"object","properties":{}})");
  EXPECT_EQ(schema(R"({"type":"object","required":["a"]})"),
            R"({"type":"object","required":["a"]})");
  EXPECT_EQ(schema(R"({"required":["a"]})"), R"({"required":["a"],"allOf":[{"type":"object"}]})");
  EXPECT_EQ(schema(R"({"allOf":[true]})"), R"({"allOf":[true,{"type":"object"}]})");
}

TEST(ChatRequests, EmptyListOfToolsEqualsAMissingField) {
  Json body = chat_body();
  body["tools"] = Json::array();
  for (const char* choice : {"none", "auto", ""}) {
    if (*choice != '\0') body["tool_choice"] = choice;
    const ChatRequest request = chat(body);
    EXPECT_TRUE(request.conversation.tools.is_null());
    EXPECT_FALSE(request.tools.choice.forced());
    body.erase("tool_choice");
  }
  body["tools"] = Json::array({{{"function", {{"name", "f"}}}}});  // the type is optional
  EXPECT_EQ(chat(body).tools.tools[0].name, "f");
}

TEST(ChatRequests, ReadWhichToolsAreAllowed) {
  Json body = chat_body();
  body["tools"] = {tool("f"), tool("g"), tool("h")};
  body["tool_choice"] =
      Json::parse(R"({"type": "allowed_tools", "allowed_tools": {"mode": "required",
    "tools": [{"type": "function", "function": {"name": "h"}},
              {"type": "function", "function": {"name": "f"}}]}})");
  const ChatRequest request = chat(body);
  EXPECT_EQ(request.tools.choice.kind, ToolChoice::Kind::kRequired);
  EXPECT_EQ(request.conversation.tools, Json::array({tool("f"), tool("h")}));
  ASSERT_EQ(request.tools.tools.size(), 2u);
  EXPECT_EQ(request.tools.tools[1].name, "h");
  body["tool_choice"]["allowed_tools"].erase("mode");
  EXPECT_EQ(chat(body).tools.choice.kind, ToolChoice::Kind::kAuto);
}

TEST(Requests, MaxTokensMayBeUnlimitedOrZero) {
  Json body = chat_body();
  body["max_tokens"] = -1;
  EXPECT_EQ(chat(body).parameters.max_tokens, kNoTokenLimit);
  body["max_tokens"] = 0;
  EXPECT_EQ(chat(body).parameters.max_tokens, 0);
  body = completion_body();
  body["max_tokens"] = -1;
  EXPECT_EQ(completion(body).parameters.max_tokens, kNoTokenLimit);
}

TEST(Requests, TheNewerTokenLimitOfChatsGoesFirstEvenIfItIsNone) {
  Json body = chat_body();
  body["max_tokens"] = 5;
  body["max_completion_tokens"] = -1;
  EXPECT_EQ(chat(body).parameters.max_tokens, kNoTokenLimit);
}

TEST(Requests, EmptyValuesWithoutEffectAreAccepted) {
  Json body = completion_body();
  body.update({{"suffix", ""}, {"stop", {"a", ""}}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(completion(body).parameters.stop, std::vector<std::string>{"a"});
  body["stop"] = "";
  EXPECT_TRUE(completion(body).parameters.stop.empty());
}

TEST(CompletionRequests, PromptsHaveFourForms) {
  const auto prompts = [](const char* prompt) {
    return completion({{"prompt", Json::parse(prompt)}}).prompts;
  };
  EXPECT_EQ(prompts(R"("a")"), (std::vector<TextOrTokens>{"a"}));
  EXPECT_EQ(prompts(R"(["a", "b"])"), (std::vector<TextOrTokens>{"a", "b"}));
  EXPECT_EQ(prompts("[1, 2]"), (std::vector<TextOrTokens>{std::vector<TokenId>{1, 2}}));
  EXPECT_EQ(prompts("[[1], [2, 3]]"),
            (std::vector<TextOrTokens>{std::vector<TokenId>{1}, std::vector<TokenId>{2, 3}}));
}

// null has the same meaning as a missing field, except in required fields.
TEST(Requests, NullMeansTheDefault) {
  for (const bool is_chat : {true, false}) {
    for (const char* field : {"model",
                              "max_tokens",
                              "max_completion_tokens",
                              "temperature",
                              "top_p",
                              "top_k",
                              "min_p",
                              "repetition_penalty",
                              "presence_penalty",
                              "frequency_penalty",
                              "logit_bias",
                              "n",
                              "seed",
                              "stop",
                              "stop_token_ids",
                              "include_stop_str_in_output",
                              "ignore_eos",
                              "min_tokens",
                              "logprobs",
                              "top_logprobs",
                              "stream",
                              "stream_options",
                              "response_format",
                              "guided_json",
                              "tools",
                              "tool_choice",
                              "parallel_tool_calls",
                              "user",
                              "echo",
                              "suffix",
                              "best_of",
                              "cache_salt",
                              "priority",
                              "return_token_ids",
                              "add_generation_prompt",
                              "continue_final_message",
                              "chat_template_kwargs",
                              "documents",
                              "functions",
                              "audio"}) {
      Json body = is_chat ? chat_body() : completion_body();
      body[field] = nullptr;
      if (is_chat)
        EXPECT_TRUE(parse_chat_request(body.dump()).ok()) << field;
      else
        EXPECT_TRUE(parse_text_completion_request(body.dump()).ok()) << field;
    }
  }
}

struct Wrong {
  const char* field;   // name of the field
  const char* values;  // JSON array of wrong values
  const char* expected;
  const char* param = nullptr;  // field in the error, if it is another one
};

// Wrong values for both chats and completions.
const Wrong kWrong[] = {
    {"model", "[5, [], true]", "a string"},
    {"n", "[0, 129, 1.5, \"1\", true, {}]", "an integer from 1 to 128"},
    {"temperature", "[-0.1, 101, \"hot\", true, []]", "a number from 0 to 100"},
    {"top_p", "[-0.1, 1.1, \"1\"]", "a number from 0 to 1"},
    {"top_k", "[-2, 1.5, \"1\", 18446744073709551615]", "an integer from -1"},
    {"min_p", "[-0.1, 1.1, []]", "a number from 0 to 1"},
    {"repetition_penalty", "[0, -1, \"1\"]", "a number from 0.01 to 100"},
    {"presence_penalty", "[-2.1, 2.1, \"1\"]", "a number from -2 to 2"},
    {"frequency_penalty", "[-2.1, 2.1, {}]", "a number from -2 to 2"},
    {"logit_bias", "[5, []]", "an object"},
    {"logit_bias", R"([{"a": 1}, {"1": 101}, {"1": "x"}, {"-1": 1}, {"1.5": 1}, {"": 1}])",
     "token ids with numbers from -100 to 100"},
    {"seed", "[1.5, \"1\", 9223372036854775808]", "an integer of 64 bits"},
    {"stop", R"([5, ["a", 5], {}])", "a string or at most 32"},
    {"stop_token_ids", "[5, \"1\", {}]", "an array"},
    {"stop_token_ids", "[[-1], [1.5], [\"1\"], [4294967296]]", "an integer from 0",
     "stop_token_ids[0]"},
    {"include_stop_str_in_output", "[0, \"true\"]", "true or false"},
    {"ignore_eos", "[1, \"no\"]", "true or false"},
    {"min_tokens", "[-1, 1.5, \"1\"]", "an integer from 0"},
    {"stream", "[1, \"true\", {}]", "true or false"},
    {"stream_options", "[true, []]", "an object"},
    {"skip_special_tokens", "[1]", "true or false"},
    {"return_token_ids", "[1]", "true or false"},
    {"echo", "[1]", "true or false"},
    {"add_special_tokens", "[1]", "true or false"},
    {"cache_salt", "[1, []]", "a string"},
    {"priority", "[1.5, \"high\"]", "an integer of 64 bits"},
    {"response_format", "[\"json\", []]", "an object"},
    {"response_format", R"([{}, {"type": "xml"}, {"type": 5}])", "", "response_format.type"},
    {"response_format", R"([{"type": "json_schema"}, {"type": "json_schema", "json_schema": 5}])",
     "an object", "response_format.json_schema"},
    {"response_format", R"([{"type": "json_schema", "json_schema": {"name": 5}}])", "a string",
     "response_format.json_schema.name"},
    {"guided_json", R"(["{", 5, [], "5"])", ""},
    {"guided_regex", R"([5, ["a"]])", "a string"},
    {"guided_choice", R"(["a", {}])", "an array"},
    {"guided_choice", R"([[], [5], ["a", 5]])", "at least one string"},
    {"guided_grammar", R"([5, ["root"]])", "a string"},
    {"grammar", R"([5, {}])", "a string"},
    {"ebnf", "[true]", "a string"},
    {"json_schema", R"([5, [], "5"])", "a JSON schema"},
    {"structured_outputs", R"([5, "x"])", "an object"},
    {"structured_outputs", R"([{"grammar": 5}])", "a string", "structured_outputs.grammar"},
    {"structured_outputs", R"([{"structural_tag": "a"}])", "not supported",
     "structured_outputs.structural_tag"},
    {"structured_outputs", R"([{"regex": "a", "choice": ["a"]}])",
     "one in structured_outputs.regex too", "structured_outputs.choice"},
    {"use_beam_search", "[true]", "not supported"},
    {"bad_words", R"([["a"]])", "not supported"},
    {"prompt_logprobs", "[1]", "not supported"},
};

const Wrong kWrongChats[] = {
    {"messages", "[null, 5, {}, []]", "an array"},
    {"messages", "[[5], [null], [[]]]", "an object with \"role\"", "messages[0]"},
    {"messages", R"([[{"content": "x"}], [{"role": 5}], [{"role": "", "content": "x"}],
                     [{"role": "<|end|>", "content": "x"}]])",
     "", "messages[0].role"},
    {"messages", R"([[{"role": "user"}], [{"role": "user", "content": null}],
                     [{"role": "user", "content": 5}], [{"role": "system"}]])",
     "a string", "messages[0].content"},
    {"messages", R"([[{"role": "user", "content": [5]}]])", "an object with \"type\"",
     "messages[0].content[0]"},
    {"messages", R"([[{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]])",
     "the only thing that this model reads", "messages[0].content[0].type"},
    {"messages", R"([[{"role": "user", "content": [{"type": "text"}]}]])", "a string",
     "messages[0].content[0].text"},
    {"messages", R"([[{"role": "assistant", "tool_calls": [{"function": {"name": "f",
                      "arguments": 5}}]}]])",
     "JSON of an object", "messages[0].tool_calls[0].function.arguments"},
    {"messages", R"([[{"role": "assistant", "tool_calls": [{"function": {}}]}]])", "a string",
     "messages[0].tool_calls[0].function.name"},
    {"messages", R"([[{"role": "assistant", "tool_calls": 5}]])", "an array",
     "messages[0].tool_calls"},
    {"messages", R"([[{"role": "tool", "content": "x", "tool_call_id": 5}]])", "a string",
     "messages[0].tool_call_id"},
    {"messages", R"([[{"role": "user", "content": "x", "name": 5}]])", "a string",
     "messages[0].name"},
    {"max_tokens", "[-2, 1.5, \"1\"]", "an integer from -1"},
    {"max_completion_tokens", "[-2, \"1\"]", "an integer from -1"},
    {"logprobs", "[1, \"true\"]", "true or false"},
    {"top_logprobs", "[-1, 21, 1.5, true]", "an integer from 0 to 20"},
    {"top_logprobs", "[3]", "\"logprobs\": true"},
    {"tools", "[5, {}, \"x\"]", "an array"},
    {"tools", R"([[{"type": "retrieval"}], [{"type": 5}]])", "", "tools[0].type"},
    {"tools", R"([[{"type": "function"}]])", "an object", "tools[0].function"},
    {"tools", R"([[{"type": "function", "function": {"name": ""}}],
                  [{"type": "function", "function": {"name": "a b"}}],
                  [{"type": "function", "function": {"name": "a\"b"}}]])",
     "letters, digits", "tools[0].function.name"},
    {"tools", R"([[{"type": "function", "function": {"name": "f", "parameters": 5}}]])",
     "an object", "tools[0].function.parameters"},
    {"tools", R"([[{"type": "function", "function": {"name": "f"}},
                   {"type": "function", "function": {"name": "f"}}]])",
     "distinct names"},
    {"tool_choice", "[5, \"any\", []]", "\"none\", \"auto\", \"required\""},
    {"tool_choice", "[\"required\"]", "\"tools\" to choose from"},
    {"tool_choice", R"([{"type": "any"}])", "\"custom\" or \"allowed_tools\"", "tool_choice.type"},
    {"tool_choice", R"([{"type": "allowed_tools"}])", "an object", "tool_choice.allowed_tools"},
    {"tool_choice", R"([{"type": "allowed_tools", "allowed_tools": {"mode": "any", "tools": []}}])",
     "\"none\", \"auto\"", "tool_choice.allowed_tools.mode"},
    {"tool_choice",
     R"([{"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}])",
     "at least one function", "tool_choice.allowed_tools.tools"},
    {"parallel_tool_calls", "[1]", "true or false"},
    {"functions", R"([[{"name": "f"}]])", "not supported"},
    {"add_generation_prompt", "[1]", "true or false"},
    {"continue_final_message", "[\"content\"]", "true or false"},
    {"chat_template_kwargs", "[5, []]", "an object"},
    {"chat_template", "[\"{{ 1 }}\"]", "not supported"},
    {"documents", "[5, [5]]", "an array"},
    {"modalities", R"([["text", "audio"]])", "[\"text\"]"},
    {"reasoning_effort", "[5]", "a string"},
};

const Wrong kWrongCompletions[] = {
    {"prompt", R"([null, 5, {}, [], [[]], ["a", 5], [1, "a"], [1.5], [-1], [[1], "a"], [[1], []],
                   [4294967296], true])",
     "a string, token ids"},
    {"max_tokens", "[-2, 1.5, \"1\"]", "an integer from -1"},
    {"logprobs", "[-1, 21, true, \"1\"]", "an integer from 0 to 20"},
    {"suffix", "[5, [\"end\"]]", "a string"},
    {"best_of", "[2]", "not supported"},
    {"best_of", "[0, \"1\"]", "an integer from 1"},
    {"prompt_embeds", "[\"x\"]", "not supported"},
};

ApiError error_of(const Json& body, bool is_chat) {
  if (is_chat) {
    const auto request = parse_chat_request(body.dump());
    return request.ok() ? ApiError{.message = "none"} : request.error();
  }
  const auto request = parse_text_completion_request(body.dump());
  return request.ok() ? ApiError{.message = "none"} : request.error();
}

void expect_wrong(const Wrong& wrong, bool is_chat) {
  const std::string param = wrong.param == nullptr ? wrong.field : wrong.param;
  for (const Json& value : Json::parse(wrong.values)) {
    Json body = is_chat ? chat_body() : completion_body();
    body[wrong.field] = value;
    const ApiError error = error_of(body, is_chat);
    SCOPED_TRACE(fmt::format("{}: {}", wrong.field, value.dump()));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.type, "invalid_request_error");
    // The error names the field, or the element if the field is a list.
    EXPECT_EQ(error.param, param);
    EXPECT_TRUE(error.message.starts_with(param + ": ")) << error.message;
    EXPECT_THAT(error.message, HasSubstr(wrong.expected));
  }
}

TEST(Requests, ErrorsNameTheWrongField) {
  for (const Wrong& wrong : kWrong) {
    expect_wrong(wrong, true);
    expect_wrong(wrong, false);
  }
  for (const Wrong& wrong : kWrongChats) expect_wrong(wrong, true);
  for (const Wrong& wrong : kWrongCompletions) expect_wrong(wrong, false);
  EXPECT_EQ(error_of({{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"top_p", 1.5}}, true)
                .message,
            "top_p: expected a number from 0 to 1, found 1.5");
}

// Lists have a limit if their length costs time for each token or each pair.
TEST(Requests, ListsHaveALimit) {
  Json body = chat_body();
  for (int id = 0; id <= 10'000; ++id) body["logit_bias"][std::to_string(id)] = 1;
  EXPECT_EQ(error_of(body, true).param, "logit_bias");
  body = chat_body();
  for (int i = 0; i <= 1024; ++i) body["tools"].push_back(tool("f" + std::to_string(i)));
  EXPECT_EQ(error_of(body, true).param, "tools");
  body["tools"].erase(0);
  EXPECT_EQ(error_of(body, true).message, "none");
  body = chat_body();
  body["stop"] = Json(std::vector<std::string>(33, "x"));
  EXPECT_EQ(error_of(body, true).param, "stop");
  body["stop"] = std::string(1025, 'x');
  EXPECT_EQ(error_of(body, true).param, "stop");
  body = completion_body();
  body["prompt"] = Json(std::vector<std::string>(kMostPrompts + 1, "x"));
  EXPECT_EQ(error_of(body, false).param, "prompt");
}

TEST(Requests, ErrorsNameFieldsThatExcludeEachOther) {
  Json body = chat_body();
  body["tools"] = Json::array({tool("f")});
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "g"}}}};
  EXPECT_EQ(error_of(body, true).param, "tool_choice");
  body["tool_choice"] = Json::parse(R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto",
    "tools": [{"function": {"name": "g"}}]}})");
  EXPECT_THAT(error_of(body, true).message,
              HasSubstr("expected a function of \"tools\", found \"g\""));
  body["tool_choice"] = "required";
  body["response_format"] = {{"type", "json_object"}};
  EXPECT_EQ(error_of(body, true).param, "tool_choice");
  body = chat_body();
  body["continue_final_message"] = true;
  EXPECT_EQ(error_of(body, true).message, "none");
  body["add_generation_prompt"] = true;
  EXPECT_EQ(error_of(body, true).param, "continue_final_message");
  body = completion_body();
  body["response_format"] = {{"type", "json_object"}};
  body["guided_regex"] = "a";
  EXPECT_EQ(error_of(body, false).param, "guided_regex");
  body["response_format"] = {{"type", "text"}};
  EXPECT_EQ(error_of(body, false).message, "none");
}

}  // namespace
}  // namespace neuronmm::serve
