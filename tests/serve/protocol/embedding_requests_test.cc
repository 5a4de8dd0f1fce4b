// Tests requests for embeddings and their responses in the formats of OpenAI, Ollama and llama.cpp.

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "serve/protocol/prepared_embedding.h"
#include "serve/responses/embedding_writer.h"

namespace neuronmm::serve {
namespace {

// A request with the embeddings (3 i + 3, 4 i + 4) for its inputs i.
Exchange embed(decltype(&prepare_openai_embeddings) prepare, const ServedModel& model,
               const Json& body) {
  Exchange result;
  const GenerationContext context{result.sink, 1700000001, [] { return uint64_t{7}; }};
  auto prepared = prepare(model, body.dump(), context);
  if (!prepared.ok()) {
    result.error = prepared.error();
    return result;
  }
  result.requests = prepared->requests;
  for (size_t i = 0; i < result.requests.size(); ++i) {
    Listener& listener = *prepared->listeners[i];
    listener.on_start({std::ssize(result.requests[i].prompt), 0});
    const auto factor = static_cast<float>(i + 1);
    listener.on_embedding({3 * factor, 4 * factor});
    listener.on_finish(0, FinishReason::kStop, {}, "");
  }
  return result;
}

ServedFolder folder_of_two() {
  ServedFolder folder;
  folder.model.hidden_size = 2;
  return folder;
}

TEST(OpenAiEmbeddings, AreNormalizedAndCounted) {
  const ServedFolder folder = folder_of_two();
  const Exchange result =
      embed(prepare_openai_embeddings, folder.model, {{"input", {"ab", {1, 2, 3}}}});
  EXPECT_EQ(result.body(), Json::parse(R"({"object": "list", "data": [
    {"object": "embedding", "index": 0, "embedding": [0.6, 0.8]},
    {"object": "embedding", "index": 1, "embedding": [0.6, 0.8]}], "model": "small",
    "usage": {"prompt_tokens": 5, "total_tokens": 5}})"));
  EXPECT_EQ(result.requests[0].embedding, Pooling::kLast);
  EXPECT_EQ(result.requests[1].prompt, (std::vector<TokenId>{1, 2, 3}));
}

TEST(OpenAiEmbeddings, NameTheModelAsOtherAnswersDo) {
  const ServedFolder folder = folder_of_two();
  const Json body = {{"input", "ab"}, {"model", "alias"}};
  EXPECT_EQ(embed(prepare_openai_embeddings, folder.model, body).body()["model"], "small");
}

TEST(OpenAiEmbeddings, MayBeShorterAndInBase64) {
  const ServedFolder folder = folder_of_two();
  Json body = {{"input", "ab"}, {"dimensions", 1}};
  EXPECT_EQ(embed(prepare_openai_embeddings, folder.model, body).body()["data"][0]["embedding"],
            Json::parse("[1.0]"));
  body["encoding_format"] = "base64";  // 1.0f is 00 00 80 3f
  EXPECT_EQ(embed(prepare_openai_embeddings, folder.model, body).body()["data"][0]["embedding"],
            "AACAPw==");
}

TEST(OpenAiEmbeddings, ErrorsNameTheField) {
  ServedFolder folder = folder_of_two();
  const auto error_of = [&](const char* body) {
    const Exchange result = embed(prepare_openai_embeddings, folder.model, Json::parse(body));
    return result.error ? result.error->param + ": " + std::to_string(result.error->status) : "";
  };
  for (const char* body :
       {"{}", R"({"input": []})", R"({"input": 3})", R"({"input": ""})", R"({"input": [""]})",
        R"({"input": {"a": 1}})", R"({"input": null})", R"({"input": [99999]})"})
    EXPECT_EQ(error_of(body), "input: 400") << body;
  EXPECT_EQ(error_of(R"({"input": ["a", 1.5]})"), "input[1]: 400");
  EXPECT_EQ(error_of(R"({"input": ["a", []]})"), "input[1]: 400");
  EXPECT_EQ(error_of(R"({"input": "a", "dimensions": 3})"), "dimensions: 400");
  EXPECT_EQ(error_of(R"({"input": "a", "dimensions": 0})"), "dimensions: 400");
  EXPECT_EQ(error_of(R"({"input": "a", "encoding_format": "hex"})"), "encoding_format: 400");
  EXPECT_EQ(error_of(R"({"input": "a", "model": "other"})"), "model: 404");
  EXPECT_EQ(error_of(R"({"input": "a", "truncate_prompt_tokens": 5})"),
            "truncate_prompt_tokens: 400");
  folder.model.context_tokens = 2;
  EXPECT_EQ(error_of(R"({"input": "ab"})"), "");
  EXPECT_EQ(error_of(R"({"input": "abc"})"), "input: 400");
  Json many = {{"input", Json::array()}};
  for (size_t i = 0; i <= kMostEmbeddingInputs; ++i) many["input"].push_back("a");
  EXPECT_EQ(error_of(many.dump().c_str()), "input: 400");
  folder.model.hidden_size = int64_t{1} << 22;
  EXPECT_EQ(error_of(R"({"input": "a"})"), "");
  EXPECT_EQ(error_of(R"({"input": ["a", "b"]})"), "input: 400");
  EXPECT_EQ(error_of(R"({"input": ["a", "b"], "dimensions": 5})"), "");
}

TEST(OllamaEmbeddings, HaveTheirTwoForms) {
  ServedFolder folder = folder_of_two();
  Json body = {{"model", "small:latest"}, {"input", {"ab", "abc"}}, {"keep_alive", "5m"}};
  const Json answer = embed(prepare_ollama_embed, folder.model, body).body();
  EXPECT_EQ(answer["embeddings"], Json::parse("[[0.6, 0.8], [0.6, 0.8]]"));
  EXPECT_EQ(answer["model"], "small:latest");
  EXPECT_EQ(answer["prompt_eval_count"], 5);
  EXPECT_GE(answer["total_duration"].get<int64_t>(), 1);
  body["dimensions"] = 1;
  EXPECT_EQ(embed(prepare_ollama_embed, folder.model, body).body()["embeddings"][1],
            Json::parse("[1.0]"));
  // The older path gives the values as they are.
  const Json old = {{"model", "small"}, {"prompt", "ab"}, {"options", {{"num_ctx", 9}}}};
  EXPECT_EQ(embed(prepare_ollama_embeddings, folder.model, old).body(),
            Json::parse(R"({"embedding": [3.0, 4.0]})"));
}

TEST(OllamaEmbeddings, LongInputsLoseTheirEnd) {
  ServedFolder folder = folder_of_two();
  folder.model.context_tokens = 3;
  Json body = {{"model", "small"}, {"input", "abcdef"}};
  EXPECT_EQ(embed(prepare_ollama_embed, folder.model, body).requests[0].prompt,
            (std::vector<TokenId>{'a', 'b', 'c'}));
  body["truncate"] = false;
  EXPECT_EQ(embed(prepare_ollama_embed, folder.model, body).error->message,
            "the input length exceeds the context length");
}

TEST(OllamaEmbeddings, ARequestThatLoadsTheModelTellsItsUnknownFields) {
  const ServedFolder folder;
  const auto prepared =
      prepare_ollama_embed(folder.model, R"({"model": "small", "strange": 1})",
                           {std::make_shared<FakeSink>(), 0, [] { return uint64_t{1}; }});
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->unknown_fields, std::vector<std::string>{"strange"});
}

TEST(OllamaEmbeddings, EmptyInputsLoadTheModelAndEmptyListsAreErrors) {
  const ServedFolder folder;
  const auto body_of = [&](const char* body) {
    return embed(prepare_ollama_embed, folder.model, Json::parse(body)).sink->body;
  };
  EXPECT_EQ(body_of(R"({"model": "small"})"), R"({"model":"small","embeddings":[]})");
  EXPECT_EQ(body_of(R"({"model": "small", "input": ""})"), R"({"model":"small","embeddings":[]})");
  EXPECT_EQ(embed(prepare_ollama_embeddings, folder.model, {{"model", "small"}}).sink->body,
            R"({"embedding":[]})");
  for (const char* wrong : {"[]", "5", "[1, 2]", "[\"a\", 5]", "{}"}) {
    const Exchange result = embed(prepare_ollama_embed, folder.model,
                                  {{"model", "small"}, {"input", Json::parse(wrong)}});
    ASSERT_TRUE(result.error) << wrong;
    EXPECT_TRUE(result.error->param.starts_with("input")) << wrong;
  }
  const Exchange unknown = embed(prepare_ollama_embed, folder.model,
                                 {{"model", "small"}, {"input", "a"}, {"options", {{"x", 1}}}});
  EXPECT_EQ(unknown.error->param, "options.x");
}

TEST(LlamaEmbeddings, AreListsOfListsWithAChosenNorm) {
  const ServedFolder folder = folder_of_two();
  Json body = {{"content", {"ab", {1, 2}}}};
  const auto first = [&](int64_t normalization) {
    body["embd_normalize"] = normalization;
    return embed(prepare_llama_embedding, folder.model, body).body()[0]["embedding"];
  };
  EXPECT_EQ(embed(prepare_llama_embedding, folder.model, body).body(),
            Json::parse(R"([{"index": 0, "embedding": [[0.6, 0.8]]},
                            {"index": 1, "embedding": [[0.6, 0.8]]}])"));
  EXPECT_EQ(first(-1), Json::parse("[[3.0, 4.0]]"));
  EXPECT_EQ(first(0), Json::parse("[[24570.0, 32760.0]]"));
  EXPECT_NEAR(first(1)[0][0].get<double>(), 3.0 / 7.0, 1e-6);
  EXPECT_NEAR(first(3)[0][1].get<double>(), 4.0 / std::cbrt(27.0 + 64.0), 1e-6);
  body["embd_normalize"] = -2;
  EXPECT_EQ(embed(prepare_llama_embedding, folder.model, body).error->param, "embd_normalize");
  EXPECT_EQ(embed(prepare_llama_embedding, folder.model, {{"input", "a"}}).requests.size(), 1u);
  EXPECT_EQ(embed(prepare_llama_embedding, folder.model, {{"content", ""}}).error->param,
            "content");
}

TEST(EmbeddingsOfEither, HaveTheFormOfTheirField) {
  const ServedFolder folder = folder_of_two();
  EXPECT_TRUE(
      embed(prepare_embeddings_of_either, folder.model, {{"input", "a"}}).body().is_object());
  EXPECT_TRUE(
      embed(prepare_embeddings_of_either, folder.model, {{"content", "a"}}).body().is_array());
  EXPECT_EQ(embed(prepare_embeddings_of_either, folder.model, Json::object()).error->param,
            "input");
}

TEST(Embeddings, OfZerosStayAndOthersMustBeFinite) {
  const EmbeddingSettings format;
  EXPECT_EQ(scaled_embedding({0.0f, 0.0f}, format), (std::vector<float>{0.0f, 0.0f}));
  // Squares of such values are beyond the range of fp32.
  EXPECT_FLOAT_EQ(scaled_embedding({3e30f, 4e30f}, format)[1], 0.8f);
  const ServedFolder folder;
  const auto sink = std::make_shared<FakeSink>();
  auto prepared = prepare_openai_embeddings(folder.model, R"({"input": "a"})",
                                            {sink, 0, [] { return uint64_t{1}; }});
  ASSERT_TRUE(prepared.ok());
  prepared->listeners[0]->on_embedding({std::nanf(""), 1.0f});
  prepared->listeners[0]->on_finish(0, FinishReason::kStop, {}, "");
  EXPECT_EQ(sink->status, 500);
}

TEST(Embeddings, FailTogetherIfOneFails) {
  const ServedFolder folder;
  const auto sink = std::make_shared<FakeSink>();
  auto prepared = prepare_ollama_embed(folder.model, R"({"model": "small", "input": ["a", "b"]})",
                                       {sink, 0, [] { return uint64_t{1}; }});
  ASSERT_TRUE(prepared.ok());
  prepared->listeners[0]->on_finish(0, FinishReason::kError, {}, "it broke");
  prepared->listeners[1]->on_embedding({1.0f});
  prepared->listeners[1]->on_finish(0, FinishReason::kStop, {}, "");
  EXPECT_EQ(sink->status, 500);
  EXPECT_EQ(sink->body, R"({"error":"it broke"})");
}

}  // namespace
}  // namespace neuronmm::serve
