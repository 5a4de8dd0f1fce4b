// Tests reading vocabularies from metadata, and the tokenizer.json that is written for them.

#include "gguf/vocabulary.h"

#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gguf/gguf_builder.h"
#include "gguf/gguf_file.h"
#include "gguf/piece_merges.h"
#include "gguf/tokenizer_files.h"
#include "io/io_test.h"

namespace neuronmm::gguf {
namespace {

using io::fails_with;
using io::GgufBuilder;
using nlohmann::json;

// The bytes are kept, because a part of the result is views of them.
Result<std::optional<Vocabulary>> read(const GgufBuilder& builder) {
  static std::vector<std::unique_ptr<std::string>> kept;
  kept.push_back(std::make_unique<std::string>(builder.bytes()));
  NMM_ASSIGN(const auto file,
             io::GgufFile::parse(std::as_bytes(std::span(*kept.back())), "x.gguf"));
  return read_vocabulary(file.metadata());
}

GgufBuilder byte_level(const std::string& pre = "smollm") {
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  builder.texts("tokenizer.ggml.tokens", {"<|end|>", "a", "b", "ab", "<x>", "[PAD5]"});
  builder.numbers<int32_t>("tokenizer.ggml.token_type", 5, {3, 1, 1, 1, 4, 5});
  builder.texts("tokenizer.ggml.merges", {"a b"});
  builder.u32("tokenizer.ggml.eos_token_id", 0).u32("tokenizer.ggml.bos_token_id", 0);
  return builder;
}

GgufBuilder sentence_piece() {
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "llama");
  builder.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "ab",
                                          "▁a", "▁ab", "▁▁", "[INST]"});
  builder.numbers<float>("tokenizer.ggml.scores", 6,
                         {0, 0, 0, 0, -9, -10, -11, -1, -2, -3, -1000, 0});
  builder.numbers<int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 4, 3});
  return builder;
}

TEST(GgufVocabulary, ByteLevelVocabulariesBecomeAByteLevelPipeline) {
  const auto vocabulary = read(byte_level());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  const json tokenizer = json::parse(tokenizer_json(**vocabulary));
  EXPECT_EQ(tokenizer["model"]["vocab"],
            json({{"<|end|>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {"<x>", 4}, {"[PAD5]", 5}}));
  EXPECT_EQ(tokenizer["model"]["merges"], json::array({json::array({"a", "b"})}));
  EXPECT_EQ(tokenizer["model"]["byte_fallback"], false);
  EXPECT_EQ(tokenizer["model"]["ignore_merges"], false);
  ASSERT_EQ(tokenizer["added_tokens"].size(), 2u);
  EXPECT_EQ(tokenizer["added_tokens"][0]["content"], "<|end|>");
  EXPECT_EQ(tokenizer["added_tokens"][0]["special"], true);
  EXPECT_EQ(tokenizer["added_tokens"][1]["id"], 4);
  EXPECT_EQ(tokenizer["added_tokens"][1]["special"], false);
  // SmolLM splits digits one by one, and then uses GPT-2's words.
  const json& steps = tokenizer["pre_tokenizer"]["pretokenizers"];
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0], json({{"type", "Digits"}, {"individual_digits", true}}));
  EXPECT_EQ(steps[1]["use_regex"], true);
  EXPECT_TRUE(tokenizer["normalizer"].is_null());
  EXPECT_EQ(tokenizer["decoder"]["type"], "ByteLevel");
  EXPECT_EQ(tokenizer["post_processor"]["type"], "ByteLevel");
}

TEST(GgufVocabulary, SentencePieceBecomesBpeWithMergesFromScores) {
  const auto vocabulary = read(sentence_piece());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  const json tokenizer = json::parse(tokenizer_json(**vocabulary));
  // The best score comes first. If scores are equal, the longer left part comes first.
  EXPECT_EQ(tokenizer["model"]["merges"].dump(), R"([["a","b"],["▁","a"],["▁a","b"],["▁","ab"]])");
  EXPECT_EQ(tokenizer["model"]["unk_token"], "<unk>");
  EXPECT_EQ(tokenizer["model"]["byte_fallback"], true);
  EXPECT_EQ(tokenizer["model"]["fuse_unk"], true);
  EXPECT_TRUE(tokenizer["pre_tokenizer"].is_null());
  EXPECT_EQ(tokenizer["normalizer"]["normalizers"][0],
            json({{"type", "Prepend"}, {"prepend", "▁"}}));
  EXPECT_EQ(tokenizer["decoder"]["decoders"].size(), 4u);
  EXPECT_EQ(tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"], json::array({1}));
  // A user-defined token is searched before spaces are replaced.
  EXPECT_EQ(tokenizer["model"]["vocab"]["  "], 10);
  EXPECT_EQ(tokenizer["added_tokens"].size(), 5u);
  const json config = json::parse(tokenizer_config_json(**vocabulary));
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_EQ(config["unk_token"], "<unk>");
  EXPECT_EQ(config["add_bos_token"], true);
}

TEST(GgufVocabulary, SpacePrefixAndBeginTokenFollowTheFile) {
  const auto vocabulary = read(sentence_piece()
                                   .boolean("tokenizer.ggml.add_space_prefix", false)
                                   .boolean("tokenizer.ggml.add_bos_token", false)
                                   .boolean("tokenizer.ggml.add_eos_token", true));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  const json tokenizer = json::parse(tokenizer_json(**vocabulary));
  EXPECT_EQ(tokenizer["normalizer"]["type"], "Replace");
  EXPECT_EQ(tokenizer["decoder"]["decoders"].size(), 3u);
  const json& single = tokenizer["post_processor"]["single"];
  ASSERT_EQ(single.size(), 2u);
  EXPECT_EQ(single[1]["SpecialToken"]["id"], "</s>");
  const auto given = read(sentence_piece().texts("tokenizer.ggml.merges", {"▁ a"}));
  EXPECT_EQ(json::parse(tokenizer_json(**given))["model"]["merges"].dump(), R"([["▁","a"]])");
}

TEST(GgufVocabulary, PreTokenizersAreFoundByName) {
  const std::pair<const char*, bool> adding[] = {{"llama-bpe", true}, {"tekken", true},
                                                 {"qwen2", false},    {"default", false},
                                                 {"gpt-2", false},    {"deepseek-llm", false}};
  for (const auto& [name, adds_bos] : adding) {
    const auto vocabulary = read(byte_level(name));
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    const json tokenizer = json::parse(tokenizer_json(**vocabulary));
    EXPECT_EQ((*vocabulary)->add_bos, adds_bos) << name;
    EXPECT_EQ(tokenizer["model"]["ignore_merges"], adds_bos) << name;
    EXPECT_EQ(tokenizer["normalizer"].is_null(), std::string_view(name) != "qwen2") << name;
  }
  EXPECT_TRUE(fails_with(read(byte_level("qwen99")),
                         {"tokenizer.ggml.pre", "expected one of default, gpt-2", "\"qwen99\""}));
}

TEST(GgufVocabulary, ChatTemplatesAndEndsOfTurnsAreRead) {
  const auto vocabulary = read(byte_level()
                                   .text("tokenizer.chat_template", "{{ one }}")
                                   .texts("tokenizer.chat_templates", {"tool_use"})
                                   .text("tokenizer.chat_template.tool_use", "{{ two }}")
                                   .u32("tokenizer.ggml.eot_token_id", 4)
                                   .u32("tokenizer.ggml.padding_token_id", 0xFFFFFFFF));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  const json config = json::parse(tokenizer_config_json(**vocabulary));
  EXPECT_EQ(config["chat_template"], json({{{"name", "default"}, {"template", "{{ one }}"}},
                                           {{"name", "tool_use"}, {"template", "{{ two }}"}}}));
  EXPECT_FALSE(config.contains("pad_token"));
  EXPECT_EQ((*vocabulary)->end_ids(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(json::parse(generation_config_json(**vocabulary))["eos_token_id"], json({0, 4}));
}

// The tokens are those of Qwen2.5-Coder, and the ends are those that llama.cpp recognizes, except
// for "</s>", which is ordinary text here.
TEST(GgufVocabulary, EndsAreRecognizedByTheirTexts) {
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "qwen2");
  builder.texts("tokenizer.ggml.tokens",
                {"a", "</s>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>",
                 "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|eot_id|>"});
  builder.numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 3, 3, 3, 4, 4, 4, 4, 1});
  builder.texts("tokenizer.ggml.merges", {}).u32("tokenizer.ggml.eos_token_id", 4);
  const auto vocabulary = read(builder);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  EXPECT_EQ((*vocabulary)->end_ids(), (std::vector<int64_t>{4, 9, 2, 6, 7, 8}));
  EXPECT_EQ(json::parse(generation_config_json(**vocabulary))["eos_token_id"],
            json({4, 9, 2, 6, 7, 8}));
  // An end is a special token, whatever its converter called it.
  std::map<std::string, bool> special;
  const json tokenizer = json::parse(tokenizer_json(**vocabulary));
  for (const json& token : tokenizer["added_tokens"]) special[token["content"]] = token["special"];
  EXPECT_EQ(special, (std::map<std::string, bool>{{"<|endoftext|>", true},
                                                  {"<|im_start|>", true},
                                                  {"<|im_end|>", true},
                                                  {"<|fim_prefix|>", false},
                                                  {"<|fim_pad|>", true},
                                                  {"<|repo_name|>", true},
                                                  {"<|file_sep|>", true},
                                                  {"<|eot_id|>", true}}));
}

TEST(GgufVocabulary, TheFileMayNameFurtherEnds) {
  for (const char* name : {"eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    const auto vocabulary =
        read(byte_level().u32(fmt::format("tokenizer.ggml.{}_token_id", name), 5));
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    EXPECT_EQ((*vocabulary)->end_ids(), (std::vector<int64_t>{0, 5})) << name;
  }
  EXPECT_EQ((*read(sentence_piece()))->end_ids(), std::vector<int64_t>{2});
}

TEST(GgufVocabulary, WithoutTokenTypesTheIdsMarkSpecialTokens) {
  GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "llama")
      .texts("tokenizer.ggml.tokens", {"a", "b", "c", "<e>"});
  builder.u32("tokenizer.ggml.eos_token_id", 3);
  const json tokenizer = json::parse(tokenizer_json(**read(builder)));
  // The begin token has the usual id 1, which the file does not name as special.
  ASSERT_EQ(tokenizer["added_tokens"].size(), 1u);
  EXPECT_EQ(tokenizer["added_tokens"][0]["content"], "<e>");
}

TEST(GgufVocabulary, AFileWithoutAVocabularyIsNoError) {
  EXPECT_FALSE(read(GgufBuilder().u32("x", 1))->has_value());
  EXPECT_FALSE(read(GgufBuilder().text("tokenizer.ggml.model", "none"))->has_value());
}

TEST(GgufVocabulary, ErrorsNameTheWrongPart) {
  const auto tokens = [](const std::string& model, const std::vector<std::string>& list) {
    GgufBuilder builder;
    return builder.text("tokenizer.ggml.model", model).texts("tokenizer.ggml.tokens", list);
  };
  for (const char* other : {"t5", "bert", "rwkv", "plamo2"})
    EXPECT_TRUE(
        fails_with(read(tokens(other, {"a"})), {"tokenizer.ggml.model", "\"llama\"", other}));
  EXPECT_TRUE(
      fails_with(read(tokens("gpt2", {"a"})), {"x.gguf", "tokenizer.ggml.merges", "missing"}));
  EXPECT_TRUE(fails_with(read(tokens("llama", {})), {"tokenizer.ggml.tokens", "missing"}));
  EXPECT_TRUE(
      fails_with(read(tokens("llama", {"a", "b", "a"})), {"tokens 0 and 2 are both \"a\""}));
  EXPECT_TRUE(fails_with(read(tokens("llama", {"a", "\xFF"})), {"token 1", "UTF-8"}));
  EXPECT_TRUE(fails_with(read(tokens("llama", {"a"}).u32("tokenizer.ggml.bos_token_id", 1)),
                         {"bos_token_id", "a token from 0 to 0", "uint32 1"}));
  EXPECT_TRUE(
      fails_with(read(tokens("llama", {"a"}).numbers<float>("tokenizer.ggml.scores", 6, {1, 2})),
                 {"tokenizer.ggml.scores", "one for each of the 1 tokens", "an array of 2"}));
  EXPECT_TRUE(
      fails_with(read(tokens("llama", {"a"}).numbers<int32_t>("tokenizer.ggml.token_type", 5, {7})),
                 {"token_type", "token 0", "from 0 to 6, found 7"}));
  EXPECT_TRUE(fails_with(read(tokens("llama", {"a", "b"}).texts("tokenizer.ggml.merges", {"a b"})),
                         {"merge 0", "\"ab\" is no token"}));
  EXPECT_TRUE(fails_with(read(tokens("llama", {"a", "b"}).texts("tokenizer.ggml.merges", {"ab"})),
                         {"merge 0", "two tokens and a space"}));
  EXPECT_TRUE(fails_with(read(tokens("llama", {"a"}).boolean("tokenizer.ggml.add_bos_token", true)),
                         {"bos_token_id", "missing"}));
}

}  // namespace
}  // namespace neuronmm::gguf
