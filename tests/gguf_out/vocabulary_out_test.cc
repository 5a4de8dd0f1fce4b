// Exports tokenizers to GGUF files and reads them again: the ids of texts, special tokens and chat
// templates must be those of the folder.

#include "gguf_out/vocabulary_out.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gguf/mounted_gguf.h"
#include "gguf/vocabulary.h"
#include "gguf_out/export_gguf.h"
#include "io/io_test.h"
#include "model/tiny_model.h"
#include "places.h"
#include "text/chat_template.h"
#include "text/tokenizer/byte_token.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::gguf_out {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::vector<std::string> kTexts = {
    "",
    "Once upon a time, there was a cat.",
    " two  spaces   and\n\nlines\t\ttabs ",
    "12345 67 8 it's they'll DON'T",
    "naïve café — 漢字 かな 한글 🙂🙃 \xF0\x9F\x87\xA9",
    "<s>a</s> <|begin_of_text|> <tool> [INST]"};

class VocabularyOut : public testing::Test {
 protected:
  void SetUp() override { io::set_mount_opener(gguf::open_mounted); }
  void TearDown() override { io::set_mount_opener(nullptr); }

  // Writes a model with `rows` rows of the vocabulary, and this tokenizer.
  void write(const json& tokenizer, int64_t rows, const json& settings = json::object()) const {
    io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
    config.vocab_size = rows;
    folder_.write_tensors(model::random_tensors(config, 1));
    folder_.write_text("config.json", model::config_json(config));
    folder_.write_text("tokenizer.json", tokenizer.dump());
    folder_.write_text("tokenizer_config.json", settings.dump());
  }
  Result<GgufSummary> exported(const fs::path& model) const {
    Progress silent;
    return export_gguf({.model = model, .out = file(), .type = "F32", .force = true}, {}, silent);
  }
  fs::path file() const { return root_ / "m.gguf"; }
  // Exports the folder and compares the ids of all texts.
  void expect_same_ids(const fs::path& model) const {
    const auto summary = exported(model);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const auto before = text::Tokenizer::load(model), after = text::Tokenizer::load(file());
    ASSERT_TRUE(before.ok()) << before.error().message;
    ASSERT_TRUE(after.ok()) << after.error().message;
    EXPECT_EQ(before->bos_id(), after->bos_id());
    EXPECT_EQ(before->eos_id(), after->eos_id());
    for (const std::string& text : kTexts) {
      EXPECT_EQ(*before->encode(text), *after->encode(text)) << text;
      const auto ids = *before->encode(text);
      EXPECT_EQ(before->decode(ids), after->decode(ids)) << text;
    }
  }
  // Returns the vocabulary of the file.
  gguf::Vocabulary vocabulary() const {
    const auto shards = io::GgufShards::open(file());
    auto read = gguf::read_vocabulary(shards->metadata());
    EXPECT_TRUE(read.ok() && read->has_value());
    gguf::Vocabulary vocabulary = **read;
    vocabulary.merges.clear();  // views of the file
    return vocabulary;
  }

  const io::TemporaryFolder root_;
  const model::ModelFolder folder_;
};

json added(const std::string& content, int64_t id, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// A SentencePiece tokenizer with bytes, letters and some words. `prefix` puts a space in front.
json pieces(bool prefix, std::vector<std::vector<std::string>> merges = {{"▁", "a"},
                                                                         {"t", "h"},
                                                                         {"▁", "th"},
                                                                         {"▁th", "e"},
                                                                         {"a", "t"},
                                                                         {"c", "at"},
                                                                         {"▁a", "t"},
                                                                         {"o", "n"}}) {
  json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int byte = 0; byte < 256; ++byte)
    vocab[text::byte_token(static_cast<char>(byte))] = 3 + byte;
  const auto add = [&](const std::string& token) {
    if (!vocab.contains(token)) vocab[token] = vocab.size();
  };
  for (const char* const letter : {"▁", "a", "b", "c", "e", "h", "n", "o", "t", "'", "2"})
    add(letter);
  for (const auto& merge : merges) add(merge[0] + merge[1]);
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
  json steps = json::array({{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}}});
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"version", "1.0"},
          {"added_tokens", {added("<unk>", 0), added("<s>", 1), added("</s>", 2)}},
          {"normalizer",
           prefix ? json{{"type", "Sequence"}, {"normalizers", {prepend, replace}}} : replace},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single",
             {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
            {"pair", json::array()},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
          {"decoder", {{"type", "Sequence"}, {"decoders", steps}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

const json kSettings = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};

TEST_F(VocabularyOut, ByteLevelTokenizersGiveTheSameIds) {
  expect_same_ids(source_dir() / "models/demo");
  const gguf::Vocabulary found = vocabulary();
  EXPECT_FALSE(found.sentence_piece);
  EXPECT_EQ(found.pre->names.front(), "dbrx");  // Llama 3's words without ignore_merges
  EXPECT_TRUE(found.add_bos);
  EXPECT_EQ(found.kinds.at(2046), gguf::TokenKind::kControl);
}

TEST_F(VocabularyOut, SentencePieceTokenizersGiveTheSameIds) {
  for (const bool prefix : {true, false}) {
    const json tokenizer = pieces(prefix);
    write(tokenizer, 280, kSettings);
    expect_same_ids(folder_.path());
    const gguf::Vocabulary found = vocabulary();
    EXPECT_TRUE(found.sentence_piece);
    EXPECT_EQ(found.add_space_prefix, prefix);
    EXPECT_EQ(found.kinds.at(0), gguf::TokenKind::kUnknown);
    EXPECT_EQ(found.kinds.at(3 + 0x0A), gguf::TokenKind::kByte);
    // The score falls with the rank of the merge that makes the piece.
    const auto score = [&](const char* token) {
      const auto at = std::ranges::find(found.tokens, token) - found.tokens.begin();
      return found.scores.at(static_cast<size_t>(at));
    };
    EXPECT_EQ(score("▁a"), 0.0);
    EXPECT_EQ(score("cat"), -5.0);
    EXPECT_EQ(found.tokens.back(), "[PAD279]");
    EXPECT_EQ(found.kinds.back(), gguf::TokenKind::kUnused);
  }
}

TEST_F(VocabularyOut, MergesThatScoresDoNotGiveAreWritten) {
  // SentencePiece would also join "a" and "th" to a piece that no merge makes.
  json tokenizer = pieces(true);
  tokenizer["model"]["vocab"]["ath"] = tokenizer["model"]["vocab"].size();
  write(tokenizer, 290, kSettings);
  expect_same_ids(folder_.path());
  const auto shards = io::GgufShards::open(file());
  EXPECT_EQ(shards->metadata().count("tokenizer.ggml.merges"), 8u);
  write(pieces(true), 290, kSettings);
  ASSERT_TRUE(exported(folder_.path()).ok());
  EXPECT_EQ(io::GgufShards::open(file())->metadata().count("tokenizer.ggml.merges"), 0u);
}

TEST_F(VocabularyOut, AddedTokensKeepTheirSpacesAndKinds) {
  json tokenizer = pieces(true);
  const auto first = static_cast<int64_t>(tokenizer["model"]["vocab"].size());
  tokenizer["added_tokens"].push_back(added("<tool>", first, false));
  tokenizer["added_tokens"].push_back(added("two  spaces", first + 1, false));
  tokenizer["added_tokens"].push_back(added("<|plain|>", first + 2, false));
  write(tokenizer, 290, kSettings);
  expect_same_ids(folder_.path());
  const gguf::Vocabulary found = vocabulary();
  EXPECT_EQ(found.kinds.at(static_cast<size_t>(first)), gguf::TokenKind::kUserDefined);
  EXPECT_EQ(found.tokens.at(static_cast<size_t>(first + 1)), "two▁▁spaces");
  EXPECT_EQ(found.kinds.at(static_cast<size_t>(first + 2)), gguf::TokenKind::kControl);
}

TEST_F(VocabularyOut, TemplatesAndEndsAreThoseOfTheFolder) {
  json settings = kSettings;
  settings["chat_template"] = {
      {{"name", "default"}, {"template", "{{ bos_token }}{{ messages[0]['content'] }}!"}},
      {{"name", "tool_use"}, {"template", "{{ messages[0]['content'] }}?"}}};
  write(pieces(false), 290, settings);
  folder_.write_text("generation_config.json",
                     R"({"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.75,
                         "eos_token_id": [2, 270, 271]})");
  expect_same_ids(folder_.path());
  const auto before = text::Tokenizer::load(folder_.path()), after = text::Tokenizer::load(file());
  EXPECT_EQ(before->config().chat_templates, after->config().chat_templates);
  text::Conversation conversation;
  conversation.messages =
      text::Conversation::Json::parse(R"([{"role": "user", "content": "cat"}])");
  const auto wanted = text::apply_chat_template(*before, conversation);
  const auto found = text::apply_chat_template(*after, conversation);
  ASSERT_TRUE(wanted.ok() && found.ok());
  EXPECT_EQ(wanted->text, "<s>cat!");
  EXPECT_EQ(found->text, wanted->text);
  EXPECT_EQ(vocabulary().end_ids(), (std::vector<int64_t>{2, 270, 271}));
  const auto shards = io::GgufShards::open(file());
  EXPECT_EQ(shards->metadata().number("general.sampling.temp")->value(), 0.5);
  EXPECT_EQ(shards->metadata().integer("general.sampling.top_k")->value(), 20);
}

TEST_F(VocabularyOut, TokenizersThatLlamaCppDoesNotHaveAreRefused) {
  const auto expect_refused = [&](const json& tokenizer, const char* words) {
    write(tokenizer, 290, kSettings);
    EXPECT_TRUE(io::fails_with(exported(folder_.path()), {"tokenizer.json", words}));
  };
  json tokenizer = pieces(true);
  tokenizer["normalizer"] = {{"type", "Lowercase"}};
  expect_refused(tokenizer, "Lowercase");
  tokenizer = pieces(true);
  tokenizer["normalizer"] = nullptr;
  expect_refused(tokenizer, "llama.cpp has no other BPE");
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", "x+"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  expect_refused(tokenizer, "no name for these rules of cutting words");
}

}  // namespace
}  // namespace neuronmm::gguf_out
