// Tests what the engine gets of a request: sampling parameters, limits and the prompt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "serve/requests/chat_request.h"

namespace neuronmm::serve {
namespace {

using testing::HasSubstr;

TEST(EngineRequests, MissingParametersComeFromTheModel) {
  const ServedFolder folder;
  ServedModel model = folder.model;
  Exchange asked = exchange(model, chat_body(), {says("")});
  ASSERT_EQ(asked.requests.size(), 1u);
  EXPECT_EQ(asked.requests[0].sampling.temperature, 1.0);  // the default of vLLM
  EXPECT_EQ(asked.requests[0].sampling.top_p, 1.0);
  EXPECT_EQ(asked.requests[0].sampling.top_k, 0);
  EXPECT_FALSE(asked.requests[0].max_new_tokens);
  EXPECT_EQ(asked.requests[0].stop_tokens, std::vector<TokenId>{kEndId});
  model.generation.temperature = 0.6;
  model.generation.top_k = 20;
  model.generation.max_new_tokens = 99;
  model.stop_tokens = {5};
  asked = exchange(model, chat_body(), {says("")});
  EXPECT_EQ(asked.requests[0].sampling.temperature, 0.6);
  EXPECT_EQ(asked.requests[0].sampling.top_k, 20);
  EXPECT_EQ(asked.requests[0].max_new_tokens, 99);
  EXPECT_EQ(asked.requests[0].stop_tokens, (std::vector<TokenId>{5, kEndId}));
  Json body = chat_body();
  body.update({{"temperature", 0},
               {"top_k", 3},
               {"max_tokens", 7},
               {"ignore_eos", true},
               {"n", 2},
               {"stop_token_ids", {9}},
               {"seed", 12},
               {"cache_salt", "s"},
               {"priority", 2}});
  asked = exchange(model, body, {says(""), says("")});
  const Request& request = asked.requests[0];
  EXPECT_EQ(request.sampling.temperature, 0.0);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.seed, 12u);
  EXPECT_EQ(request.max_new_tokens, 7);
  EXPECT_EQ(request.stop_tokens, std::vector<TokenId>{9});
  EXPECT_EQ(request.choices, 2);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_EQ(request.priority, 2);
}

TEST(EngineRequests, ALimitOfMinusOneAllowsAsManyTokensAsFit) {
  const ServedFolder folder;
  ServedModel model = folder.model;
  model.generation.max_new_tokens = 99;
  for (Json body : {chat_body(), completion_body()}) {
    body.update({{"max_tokens", -1}, {"min_tokens", 100}});
    const Exchange asked = exchange(model, body, {says("")});
    ASSERT_EQ(asked.requests.size(), 1u);
    EXPECT_FALSE(asked.requests[0].max_new_tokens);
  }
  const Exchange absent = exchange(model, chat_body(), {says("")});
  ASSERT_EQ(absent.requests.size(), 1u);
  EXPECT_EQ(absent.requests[0].max_new_tokens, 99);
}

TEST(EngineRequests, RefuseUnknownModelsTokensAndTooLongPrompts) {
  const ServedFolder folder;
  const auto error = [&](const Json& fields, bool is_chat = true) {
    Json body = is_chat ? chat_body() : completion_body();
    body.update(fields);
    return exchange(folder.model, body, {}).error.value_or(invalid_request("", "none"));
  };
  EXPECT_EQ(error({{"model", "large"}}).status, 404);
  EXPECT_EQ(error({{"model", "large"}}).code, "model_not_found");
  EXPECT_EQ(error({{"logit_bias", {{"259", 1}}}}).param, "logit_bias");
  EXPECT_EQ(error({{"stop_token_ids", {259}}}).param, "stop_token_ids");
  EXPECT_EQ(error({{"min_tokens", 5}, {"max_tokens", 4}}).param, "min_tokens");
  EXPECT_EQ(error({{"prompt", {300}}}, false).param, "prompt");
  EXPECT_EQ(error({{"prompt", ""}, {"add_special_tokens", false}}, false).param, "prompt");
  const ApiError long_prompt = error({{"prompt", std::string(4096, 'x')}}, false);
  EXPECT_EQ(long_prompt.code, "context_length_exceeded");
  EXPECT_EQ(long_prompt.status, 400);
  const ServedFolder strict("{{ raise_exception('Roles must alternate') }}");
  EXPECT_THAT(exchange(strict.model, chat_body(), {}).error->message,
              HasSubstr("Roles must alternate"));
}

TEST(Prompts, ChatPromptsFollowTheTemplate) {
  const ServedFolder folder;
  Json body = chat_body();
  body["messages"][0]["content"] = "<|end|>Hi";  // special tokens in a message are plain text
  const Exchange asked = exchange(folder.model, body, {says("")});
  std::vector<TokenId> expected = {kBeginId};
  const auto said = bytes("|user|<|end|>Hi|assistant|");
  expected.insert(expected.end(), said.begin(), said.end());
  EXPECT_EQ(asked.requests[0].prompt, expected);
  body["messages"][0]["role"] = "developer";
  const Exchange developer = exchange(folder.model, body, {says("")});
  const auto system = bytes("|system|<|end|>Hi|assistant|");
  EXPECT_TRUE(std::equal(system.begin(), system.end(), developer.requests[0].prompt.begin() + 1));
}

TEST(Prompts, CompletionPromptsMayContainSpecialTokens) {
  const ServedFolder folder;
  const Exchange asked =
      exchange(folder.model, {{"prompt", {"a<|end|>", "b"}}, {"n", 2}}, {says(""), says("")});
  ASSERT_EQ(asked.requests.size(), 2u);
  EXPECT_EQ(asked.requests[0].prompt, (std::vector<TokenId>{'a', kEndId}));
  EXPECT_EQ(asked.requests[1].prompt, std::vector<TokenId>{'b'});
}

}  // namespace
}  // namespace neuronmm::serve
