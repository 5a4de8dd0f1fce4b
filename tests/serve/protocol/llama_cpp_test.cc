// Tests llama.cpp's /completion: which requests are read, what the engine gets, and the answers as
// one object, as several, and as a stream.

#include <gmock/gmock.h>

#include "serve/protocol/fake_server.h"
#include "serve/protocol/llama_cpp_completion.h"
#include "serve/protocol/llama_cpp_info.h"
#include "serve/requests/llama_cpp_request.h"

namespace neuronmm::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Exchange complete(const ServedModel& model, const Json& body,
                  const std::vector<ScriptedAnswer>& answers) {
  return exchange_by(prepare_llama_cpp_completion, model, body, answers);
}

std::string joined_content(const std::vector<Json>& chunks) {
  std::string text;
  for (const Json& chunk : chunks) text += chunk["content"].get<std::string>();
  return text;
}

TEST(LlamaCpp, AnswerHasTheFieldsOfItsServer) {
  const ServedFolder folder;
  const Json body = {{"prompt", "Once"}, {"n_predict", 4}, {"seed", 5}, {"return_tokens", true}};
  const Exchange done =
      complete(folder.model, body, {{.tokens = bytes("a\nbc"), .reason = FinishReason::kLength}});
  const Json answer = done.body();
  EXPECT_EQ(answer["content"], "a\nbc");
  EXPECT_EQ(answer["tokens"], Json(bytes("a\nbc")));
  EXPECT_EQ(answer["index"], 0);
  EXPECT_EQ(answer["stop"], true);
  EXPECT_EQ(answer["stop_type"], "limit");
  EXPECT_EQ(answer["stopping_word"], "");
  EXPECT_EQ(answer["model"], "small");
  EXPECT_EQ(answer["prompt"], "Once");
  EXPECT_EQ(answer["tokens_predicted"], 4);
  EXPECT_EQ(answer["tokens_evaluated"], 4);
  EXPECT_EQ(answer["tokens_cached"], 7);
  EXPECT_EQ(answer["truncated"], false);
  EXPECT_EQ(answer["has_new_line"], true);
  EXPECT_EQ(answer["generation_settings"]["n_predict"], 4);
  EXPECT_EQ(answer["generation_settings"]["seed"], 5);
  EXPECT_EQ(answer["generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(answer["timings"]["prompt_n"], 4);
  EXPECT_EQ(answer["timings"]["predicted_n"], 4);
  EXPECT_FALSE(answer.contains("completion_probabilities"));
}

TEST(LlamaCpp, StreamEndsWithAStopAndWithoutDone) {
  const ServedFolder folder;
  const Json body = {{"prompt", "Once"}, {"stream", true}, {"n_probs", 1}};
  const Exchange done =
      complete(folder.model, body, {{.tokens = bytes("aé!"), .stop_token = kEndId}});
  const std::vector<Json> chunks = done.sink->chunks();
  EXPECT_EQ(chunks.size(), done.sink->events.size());  // none is [DONE]
  EXPECT_EQ(joined_content(chunks), "aé!");
  size_t tokens = 0, probabilities = 0;
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk["stop"], &chunk == &chunks.back());
    tokens += chunk["tokens"].size();
    if (chunk.contains("completion_probabilities"))
      probabilities += chunk["completion_probabilities"].size();
  }
  EXPECT_EQ(tokens, 4u);
  EXPECT_EQ(probabilities, 4u);
  EXPECT_EQ(chunks.back()["content"], "");
  EXPECT_EQ(chunks.back()["stop_type"], "eos");
  EXPECT_TRUE(chunks.back().contains("timings"));
  EXPECT_FALSE(chunks.front().contains("timings"));
}

TEST(LlamaCpp, ReportsProgressAndTimingsIfAsked) {
  const ServedFolder folder;
  const Json body = {
      {"prompt", "Once"}, {"stream", true}, {"return_progress", true}, {"timings_per_token", true}};
  const Exchange done =
      exchange_by(prepare_llama_cpp_completion, folder.model, body, {says("ab")}, 3);
  const std::vector<Json> chunks = done.sink->chunks();
  EXPECT_EQ(chunks[0]["prompt_progress"]["processed"], 3);
  EXPECT_EQ(chunks[0]["prompt_progress"]["total"], 4);
  EXPECT_EQ(chunks[1]["prompt_progress"]["processed"], 4);
  for (const Json& chunk : chunks) EXPECT_EQ(chunk["timings"]["cache_n"], 3);
  EXPECT_EQ(chunks.back()["timings"]["prompt_n"], 1);
  EXPECT_EQ(joined_content(chunks), "ab");
}

TEST(LlamaCpp, SaysWhatEndedTheAnswer) {
  const ServedFolder folder;
  Json body = {{"prompt", "Once"}, {"stop", {"cd"}}, {"n_probs", 2}};
  const Json word = complete(folder.model, body, {says("abcdef")}).body();
  EXPECT_EQ(word["content"], "ab");
  EXPECT_EQ(word["stop_type"], "word");
  EXPECT_EQ(word["stopping_word"], "cd");
  EXPECT_EQ(word["completion_probabilities"].size(), 2u);
  const Json probability = word["completion_probabilities"][0];
  EXPECT_EQ(probability["id"], 'a');
  EXPECT_EQ(probability["bytes"], Json({'a'}));
  EXPECT_EQ(probability["logprob"], -0.5);
  EXPECT_EQ(probability["top_logprobs"][1]["token"], "b");
  EXPECT_EQ(complete(folder.model, body, {{.tokens = bytes("x"), .stop_token = kEndId}})
                .body()["stop_type"],
            "eos");
  ServedFolder narrow;
  narrow.model.context_tokens = 8;
  const Json full =
      complete(narrow.model, body, {{.tokens = bytes("wxyz"), .reason = FinishReason::kLength}})
          .body();
  EXPECT_EQ(full["truncated"], true);
  EXPECT_EQ(full["stop_type"], "limit");
}

TEST(LlamaCpp, EndsAtALineWithLessIndentation) {
  const ServedFolder folder;
  const Json body = {{"prompt", "Once"}, {"n_indent", 2}};
  const Json answer = complete(folder.model, body, {says("a;\n  b;\n   c;\n }\nd")}).body();
  EXPECT_EQ(answer["content"], "a;\n  b;\n   c;\n ");
  EXPECT_EQ(answer["stop_type"], "limit");
  EXPECT_EQ(complete(folder.model, body, {says("}\n\t\tx")}).body()["content"], "}\n\t\tx");
}

TEST(LlamaCpp, SeveralAnswersAreAnArray) {
  const ServedFolder folder;
  const Json body = {{"prompt", {"a", "b"}}, {"n_cmpl", 2}};
  const Exchange done = complete(folder.model, body, {says("x"), says("y")});
  EXPECT_EQ(done.requests.size(), 2u);
  EXPECT_EQ(done.requests[0].choices, 2);
  const Json answers = done.body();
  ASSERT_EQ(answers.size(), 4u);
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]["index"], i);
    EXPECT_EQ(answers[i]["prompt"], i < 2 ? "a" : "b");
    EXPECT_EQ(answers[i]["content"], i % 2 == 0 ? "x" : "y");
  }
}

TEST(LlamaCpp, PromptsMixTextsAndTokens) {
  const ServedFolder folder;
  const std::vector<TokenId> expected = {'a', 7, 'b', kEndId};
  for (const char* prompt :
       {R"([97, 7, "b<|end|>"])", R"(["a", 7, "b", 257])", R"([["a", 7, "b", 257]])",
        R"([{"prompt_string": ["a", 7, "b", 257]}])", R"({"prompt_string": [97, 7, 98, 257]})"}) {
    const Exchange done = complete(folder.model, {{"prompt", Json::parse(prompt)}}, {says("x")});
    ASSERT_EQ(done.requests.size(), 1u) << prompt;
    EXPECT_EQ(done.requests[0].prompt, expected) << prompt;
  }
  const Exchange several =
      complete(folder.model, {{"prompt", Json::parse(R"(["a", [98, "c"], "d"])")}}, {says("x")});
  EXPECT_EQ(several.requests.size(), 3u);
  EXPECT_EQ(several.requests[1].prompt, bytes("bc"));
}

TEST(LlamaCpp, ResponseFieldsChooseAndUnnest) {
  const ServedFolder folder;
  const Json body = {
      {"prompt", "Once"},
      {"response_fields", {"content", "timings/predicted_n", "no", "generation_settings/no", ""}}};
  EXPECT_EQ(complete(folder.model, body, {says("ab")}).body().dump(),
            R"({"content":"ab","timings/predicted_n":2})");
}

TEST(LlamaCpp, LeftOutFieldsHaveItsServersDefaults) {
  ServedFolder folder;
  const auto sampling = [&](Json body) {
    body["prompt"] = "Once";
    return complete(folder.model, body, {says("a")}).requests.at(0).sampling;
  };
  EXPECT_EQ(sampling({}).temperature, 0.8);
  EXPECT_EQ(sampling({}).top_k, 40);
  EXPECT_EQ(sampling({}).top_p, 0.95);
  EXPECT_EQ(sampling({}).min_p, 0.05);
  EXPECT_EQ(sampling({{"temperature", 0.5}}).temperature, 0.5);
  const model::SamplingOptions chosen =
      sampling({{"samplers", {"top_k", "tfs_z", "top-p", "infill"}}});
  EXPECT_EQ(chosen.temperature, 1.0);
  EXPECT_EQ(chosen.top_k, 40);
  EXPECT_EQ(chosen.min_p, 0.0);
  EXPECT_EQ(sampling({{"samplers", "kt"}}).top_p, 1.0);
  folder.model.generation.temperature = 0.3;
  folder.model.generation.top_k = 3;
  EXPECT_EQ(sampling({}).temperature, 0.3);
  EXPECT_EQ(sampling({}).top_k, 3);
  EXPECT_FALSE(complete(folder.model, {{"prompt", "a"}}, {says("a")}).requests[0].max_new_tokens);
}

TEST(LlamaCpp, SeedsOfMinusOneAreRandomAndTheCacheCanBeLeftAlone) {
  const ServedFolder folder;
  const auto request = [&](Json body) {
    body["prompt"] = "Once";
    return complete(folder.model, body, {says("a")}).requests.at(0);
  };
  EXPECT_EQ(request({{"seed", 9}}).sampling.seed, 9u);
  for (const int64_t seed : {int64_t{-1}, int64_t{UINT32_MAX}}) {
    EXPECT_NE(request({{"seed", seed}}).sampling.seed, static_cast<uint64_t>(seed));
  }
  EXPECT_EQ(request({}).cache_salt, "");
  EXPECT_NE(request({{"cache_prompt", false}}).cache_salt, "");
}

TEST(LlamaCpp, BiasesNameTokensByIdOrText) {
  const ServedFolder folder;
  const auto biases = [&](const char* list) {
    Json body = {{"prompt", "Once"}, {"logit_bias", Json::parse(list)}};
    const Exchange done = complete(folder.model, body, {says("a")});
    std::string text;
    if (done.error) return done.error->message;
    for (const model::LogitBias& bias : done.requests[0].sampling.logit_bias)
      text += fmt::format("{}:{} ", bias.id, bias.bias);
    return text;
  };
  EXPECT_EQ(biases(R"([[7, 1.5], ["ab", -2], [9, false]])"), "7:1.5 97:-2 98:-2 9:-1000000000 ");
  EXPECT_EQ(biases(R"({"7": 1.5, "ab": false})"), "7:1.5 97:-1000000000 98:-1000000000 ");
  EXPECT_EQ(biases("[]"), "");
  EXPECT_THAT(biases("[[7]]"), HasSubstr("logit_bias: expected at most 10000 pairs"));
  EXPECT_THAT(biases("[[7, true]]"), HasSubstr("logit_bias: expected"));
  EXPECT_THAT(biases("5"), HasSubstr("logit_bias: expected"));
  EXPECT_THAT(biases("[[999999, 1]]"), HasSubstr("logit_bias: expected token ids below"));
}

TEST(LlamaCpp, GrammarAndSchemaAreShapesOfTheAnswer) {
  const ServedFolder folder;
  const auto kind = [&](Json body) {
    body["prompt"] = "Once";
    return complete(folder.model, body, {says("a")}).structured_output.kind;
  };
  EXPECT_EQ(kind({{"grammar", "root ::= [a]"}}), StructuredOutput::Kind::kGrammar);
  EXPECT_EQ(kind({{"json_schema", {{"type", "null"}}}}), StructuredOutput::Kind::kJsonSchema);
  EXPECT_EQ(kind({{"grammar", ""}}), StructuredOutput::Kind::kText);
}

TEST(LlamaCpp, WrongFieldsAreNamed) {
  const ServedFolder folder;
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "prompt: expected a string"},
      {R"({"prompt": []})", "prompt: expected a string"},
      {R"({"prompt": [1, {}]})", "prompt: expected a string"},
      {R"({"prompt": [-1]})", "prompt: expected a string"},
      {R"({"prompt": [999999]})", "prompt: expected token ids below"},
      {R"({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}})", "prompt: expected"},
      {R"({"prompt": "a", "n_predict": -2})", "n_predict: expected an integer from -1"},
      {R"({"prompt": "a", "n_probs": 101})", "n_probs: expected an integer from 0 to 100"},
      {R"({"prompt": "a", "n_cmpl": 0})", "n_cmpl: expected an integer from 1"},
      {R"({"prompt": "a", "lora": [{"id": 0, "scale": 1}]})", "lora: not supported"},
      {R"({"prompt": "a", "post_sampling_probs": true})", "post_sampling_probs: not supported"},
      {R"({"prompt": "a", "mirostat": 2})", "mirostat: "},
      {R"({"prompt": "a", "dynatemp_range": 0.5})", "dynatemp_range: "},
      {R"({"prompt": "a", "top_n_sigma": 1})", "top_n_sigma: "},
      {R"({"prompt": "a", "samplers": ["top_x"]})", "samplers: expected the order"},
      {R"({"prompt": "a", "samplers": "kq"})", "samplers: expected the order"},
      {R"({"prompt": "a", "response_fields": "content"})", "response_fields: expected an array"},
      {R"({"prompt": "a", "min_keep": 3})", "min_keep: expected an integer from 0 to 1"},
      {R"({"prompt": "a", "grammar": 5})", "grammar: expected a string"},
      {R"({"prompt": "a", "stop": [5]})", "stop: expected a string or at most"},
      {R"({"prompt": "a", "model": "other"})", "The model \"other\" does not exist"},
  };
  for (const auto& [body, message] : cases) {
    const Exchange done = complete(folder.model, Json::parse(body), {says("a")});
    ASSERT_TRUE(done.error) << body;
    EXPECT_THAT(done.error->message, HasSubstr(message)) << body;
  }
  EXPECT_TRUE(parse_llama_cpp_completion(R"({"prompt": "a", "lora": [], "id_slot": 3})").ok());
  EXPECT_TRUE(
      parse_llama_cpp_completion(R"({"prompt": "a", "mirostat": 0, "dynatemp_range": 0})").ok());
}

TEST(LlamaCpp, ErrorsHaveItsForm) {
  EXPECT_EQ(llama_cpp_error_json(invalid_request("stop", "stop: wrong")),
            R"({"error":{"code":400,"message":"stop: wrong","type":"invalid_request_error"}})");
  EXPECT_THAT(llama_cpp_error_json(invalid_request("stop", "wrong")), HasSubstr("stop: wrong"));
  const Json longer = Json::parse(llama_cpp_error_json(prompt_too_long("prompt", 99, 64)));
  EXPECT_EQ(longer["error"]["type"], "exceed_context_size_error");
  EXPECT_EQ(longer["error"]["n_prompt_tokens"], 99);
  EXPECT_EQ(longer["error"]["n_ctx"], 64);
  const ServedFolder folder;
  Json body = {{"prompt", "Once"}, {"stream", true}};
  const ScriptedAnswer broken = {
      .tokens = bytes("a"), .reason = FinishReason::kError, .message = "x"};
  EXPECT_EQ(complete(folder.model, body, {broken}).sink->events.back(),
            "data: {\"error\":{\"code\":500,\"message\":\"x\",\"type\":\"server_error\"}}\n\n");
  body["stream"] = false;
  EXPECT_EQ(complete(folder.model, body, {broken}).body()["error"]["code"], 500);
}

TEST(LlamaCpp, CompletionsWithoutAVersionAreItsOwnIfTheyHaveItsLimit) {
  const ServedFolder folder;
  const auto answer = [&](const Json& body) {
    return exchange_by(prepare_either_completion, folder.model, body, {says("ab")}).body();
  };
  EXPECT_EQ(answer({{"prompt", "n_predict"}, {"n_predict", 3}})["content"], "ab");
  EXPECT_EQ(answer({{"prompt", "n_predict"}, {"max_tokens", 3}})["choices"][0]["text"], "ab");
}

TEST(LlamaCpp, PropsAndSlotsTellAboutTheServer) {
  ServedFolder folder;
  folder.model.slots = 3;
  const Json props = Json::parse(llama_cpp_props_json(folder.model, "1.2.3"));
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(props["default_generation_settings"]["params"]["top_k"], 40);
  EXPECT_EQ(props["default_generation_settings"]["params"]["n_predict"], -1);
  EXPECT_EQ(props["total_slots"], 3);
  EXPECT_EQ(props["chat_template"], hermes_template());
  EXPECT_EQ(props["bos_token"], "<|begin|>");
  EXPECT_EQ(props["build_info"], "neuronmm-1.2.3");
  const Json slots = Json::parse(llama_cpp_slots_json(folder.model, 2));
  EXPECT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[1]["is_processing"], true);
  EXPECT_EQ(slots[2]["is_processing"], false);
  EXPECT_EQ(slots[2]["n_ctx"], 4096);
}

}  // namespace
}  // namespace neuronmm::serve
