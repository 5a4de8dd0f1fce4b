// Tests the endpoints that need only the tokenizer, and the lists of models.

#include "serve/protocol/tokenizer_endpoints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "places.h"
#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

std::string text_of(const ApiResult<std::string>& answer) {
  return answer.ok() ? *answer : answer.error().param + "! " + answer.error().message;
}

TEST(TokenRequests, Tokenize) {
  const ServedFolder folder;
  EXPECT_EQ(text_of(tokenize_response(folder.model, R"({"prompt": "a<|end|>"})")),
            R"({"count":2,"max_model_len":4096,"tokens":[97,257],"token_strs":null})");
  EXPECT_EQ(
      text_of(tokenize_response(folder.model, R"({"prompt": "é", "return_token_strs": true})")),
      "{\"count\":2,\"max_model_len\":4096,\"tokens\":[195,169],\"token_strs\":"
      "[\"\xEF\xBF\xBD\",\"\xEF\xBF\xBD\"]}");
  EXPECT_EQ(text_of(tokenize_response(folder.model, R"({"messages": [{"role": "user", "content":
              "h"}], "add_generation_prompt": false})")),
            R"({"count":8,"max_model_len":4096,"tokens":[256,124,117,115,101,114,124,104],)"
            R"("token_strs":null})");
}

TEST(TokenRequests, TokenizeInLlamaCppsFormat) {
  const ServedFolder folder;
  EXPECT_EQ(text_of(tokenize_response(folder.model, R"({"content": "ab", "with_pieces": true})")),
            R"({"count":2,"max_model_len":4096,"tokens":[{"id":97,"piece":"a"},)"
            R"({"id":98,"piece":"b"}],"token_strs":null})");
  // The tokens of this tokenizer are bytes, so each has only a part of the letter.
  EXPECT_EQ(
      text_of(tokenize_response(folder.model, "{\"content\": \"\u00e9\", \"with_pieces\": true}")),
      R"({"count":2,"max_model_len":4096,"tokens":[{"id":195,"piece":[195]},)"
      R"({"id":169,"piece":[169]}],"token_strs":null})");
  // The tokenizer of this folder begins texts with a special token.
  const ServedFolder demo = ServedFolder::published(source_dir() / "models/demo");
  const auto tokenized = [&](const char* body) {
    return text_of(tokenize_response(demo.model, body));
  };
  const std::string special = tokenized(R"({"prompt": "ab"})");
  EXPECT_EQ(tokenized(R"({"content": "ab", "add_special": true})"), special);
  EXPECT_NE(tokenized(R"({"content": "ab"})"), special);
  EXPECT_EQ(tokenized(R"({"content": "ab"})"),
            tokenized(R"({"prompt": "ab", "add_special_tokens": false})"));
  const auto of_bytes = [&](const char* body) {
    return Json::parse(text_of(tokenize_response(folder.model, body)))["tokens"].dump();
  };
  EXPECT_EQ(of_bytes(R"({"content": "a<|end|>"})"), "[97,257]");
  EXPECT_EQ(of_bytes(R"({"content": ["a", 7, "b"]})"), "[97,7,98]");
  EXPECT_EQ(of_bytes(R"({"content": "<|", "parse_special": false})"), "[60,124]");
  EXPECT_EQ(of_bytes(R"({"content": "|<|end|>", "parse_special": false})"),
            "[124,60,124,101,110,100,124,62]");
}

TEST(TokenRequests, Detokenize) {
  const ServedFolder folder;
  EXPECT_EQ(text_of(detokenize_response(folder.model, R"({"tokens": [72, 105, 257]})")),
            R"({"prompt":"Hi<|end|>","content":"Hi<|end|>"})");
}

TEST(TokenRequests, ApplyTheTemplate) {
  const ServedFolder folder;
  EXPECT_EQ(text_of(apply_template_response(
                folder.model, R"({"messages": [{"role": "user", "content": "Hi"}]})")),
            R"({"prompt":"<|begin|>|user|Hi|assistant|"})");
}

TEST(TokenRequests, DescribeTheTokenizer) {
  const ServedFolder folder;
  const auto info = nlohmann::json::parse(tokenizer_info_json(folder.model));
  EXPECT_EQ(info["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(info["model_max_length"], 4096);
  EXPECT_EQ(info["bos_token"], "<|begin|>");
  EXPECT_EQ(info["eos_token"], "<|end|>");
  ASSERT_TRUE(info["chat_template"].is_string());
  EXPECT_NE(std::string(info["chat_template"]).find("message"), std::string::npos);
}

TEST(TokenRequests, ErrorsNameTheFieldAndTheFault) {
  const ServedFolder folder;
  EXPECT_TRUE(
      text_of(tokenize_response(folder.model, "{}")).starts_with("prompt! prompt: expected"));
  EXPECT_TRUE(text_of(tokenize_response(folder.model, R"({"prompt": 5})")).starts_with("prompt!"));
  EXPECT_TRUE(text_of(detokenize_response(folder.model, "{}")).starts_with("tokens!"));
  EXPECT_TRUE(
      text_of(detokenize_response(folder.model, R"({"tokens": [-1]})")).starts_with("tokens[0]!"));
  const int64_t vocabulary = folder.model.vocab_size;
  EXPECT_EQ(text_of(detokenize_response(folder.model,
                                        fmt::format(R"({{"tokens": [72, {}]}})", vocabulary))),
            fmt::format("tokens! tokens: expected token ids below {0}, found {0}", vocabulary));
  EXPECT_TRUE(text_of(apply_template_response(folder.model, "{}")).starts_with("messages!"));
  EXPECT_TRUE(text_of(tokenize_response(folder.model, R"({"model": "x", "prompt": "a"})"))
                  .starts_with("model!"));
}

TEST(Listings, NameTheModel) {
  ServedFolder folder;
  folder.model.sizes = {8192, 64, 1000, 2000};
  const std::string sizes = R"("meta":{"vocab_type":2,"n_vocab":259,"n_ctx":4096,)"
                            R"("n_ctx_train":8192,"n_embd":64,"n_params":1000,"size":2000}})";
  EXPECT_EQ(models_json(folder.model),
            R"({"object":"list","data":[{"id":"small","object":"model","created":1700000000,)"
            R"("owned_by":"neuronmm","root":"small","parent":null,"max_model_len":4096,)" +
                sizes +
                R"(,{"id":"alias","object":"model","created":1700000000,"owned_by":"neuronmm",)"
                R"("root":"small","parent":null,"max_model_len":4096,)" +
                sizes + "]}");
  EXPECT_EQ(version_json("0.2.0"), R"({"version":"0.2.0"})");
}

}  // namespace
}  // namespace neuronmm::serve
