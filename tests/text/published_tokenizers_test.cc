// Compares the tokenizers of GPT-2, Llama-3 and Qwen3 with published ids and counts.

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "small_tokenizer.h"
#include "test_data.h"
#include "text/chat_template.h"
#include "text/unicode/unicode_form.h"

namespace neuronmm::text {
namespace {

using Ids = std::vector<TokenId>;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr EncodeOptions kNoSpecial = {.add_special_tokens = false};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t from = 0;
  for (size_t at; (at = text.find(separator, from)) != std::string::npos;) {
    parts.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

// The files have 47 texts with a line between them, and the ids of each text on a line.
void expect_vectors(const Result<Tokenizer>& tokenizer, const std::string& name) {
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  NMM_TEST_DATA_OR_SKIP(inputs, "tokenizers/vectors/" + name + ".inp");
  NMM_TEST_DATA_OR_SKIP(outputs, "tokenizers/vectors/" + name + ".out");
  const auto texts = split(read(inputs), "\n__ggml_vocab_test__\n");
  const auto lines = split(read(outputs), "\n");
  ASSERT_EQ(texts.size(), 47u);
  ASSERT_EQ(lines.size(), 47u);
  for (size_t i = 0; i < texts.size(); ++i) {
    std::istringstream line(lines[i]);
    const Ids expected{std::istream_iterator<TokenId>(line), {}};
    EXPECT_EQ(tokenizer->encode(texts[i], kNoSpecial).value(), expected)
        << "text " << i << ": " << texts[i];
    EXPECT_EQ(tokenizer->decode(expected), texts[i]);
  }
}

TEST(PublishedTokenizers, Llama3GivesThePublishedIds) {
  NMM_TEST_DATA_OR_SKIP(folder, "tokenizers/llama3");
  expect_vectors(Tokenizer::load(folder), "llama-bpe");
}

TEST(PublishedTokenizers, Qwen2GivesThePublishedIds) {
  NMM_TEST_DATA_OR_SKIP(folder, "tokenizers/qwen3");
  expect_vectors(Tokenizer::load(folder), "qwen2");
}

// GPT-2 was published as two files, of which a tokenizer.json is made here. The first line of
// merges.txt is its version.
TEST(PublishedTokenizers, Gpt2GivesThePublishedIds) {
  NMM_TEST_DATA_OR_SKIP(folder, "tokenizers/gpt2");
  std::vector<std::string> merges = split(read(folder / "merges.txt"), "\n");
  std::erase_if(merges,
                [](const auto& line) { return line.empty() || line.starts_with("#version"); });
  const json vocab = json::parse(read(folder / "vocab.json"));
  const json tokenizer = {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}},
                          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                          {"decoder", {{"type", "ByteLevel"}}}};
  expect_vectors(Tokenizer::parse(tokenizer.dump(), "gpt2"), "gpt-2");
}

// The expected ids come from the tokenizers library.
TEST(PublishedTokenizers, SmallTokenizersGiveTheIdsOfTheTokenizersLibrary) {
  NMM_TEST_DATA_OR_SKIP(folder, "oracles/hf-tiny");
  int tokenizers = 0;
  const json groups = json::parse(read(folder / "hf_tokenizer_cases.json"));
  for (const auto& [name, group] : groups.items()) {
    const fs::path path = folder / std::string(group["tokenizer"]);
    if (path.extension() != ".json" || !fs::exists(path)) continue;
    ++tokenizers;
    const auto tokenizer = Tokenizer::parse(read(path), path.string());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    for (const json& vector : group["cases"]) {
      const Ids ids = tokenizer->encode(std::string(vector["text"])).value();
      EXPECT_EQ(ids, Ids(vector["ids"])) << name << ": " << vector["text"];
      EXPECT_EQ(tokenizer->decode(ids, true), vector["decoded"]) << name;
    }
  }
  EXPECT_EQ(tokenizers, 2);
}

TEST(PublishedTokenizers, BosAndEosAreThePublishedIds) {
  NMM_TEST_DATA_OR_SKIP(llama3, "tokenizers/llama3");
  NMM_TEST_DATA_OR_SKIP(qwen3, "tokenizers/qwen3");
  const auto llama = Tokenizer::load(llama3), qwen = Tokenizer::load(qwen3);
  ASSERT_TRUE(llama.ok() && qwen.ok());
  EXPECT_EQ(llama->bos_id(), 128000);
  EXPECT_EQ(llama->eos_id(), 128009);
  EXPECT_EQ(llama->vocab_size(), 128256);
  EXPECT_EQ(llama->encode("<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>").value(),
            (Ids{128000, 128006, 882, 128007, 271, 13347, 128009}));
  EXPECT_EQ(qwen->bos_id(), std::nullopt);
  EXPECT_EQ(qwen->eos_id(), 151645);
  EXPECT_EQ(qwen->vocab_size(), 151669);
  EXPECT_TRUE(qwen->is_special(151645));
  EXPECT_FALSE(qwen->is_special(*qwen->token_to_id("<think>")));
}

// Encoding with literal ranges must give the ids of the whole prompt. Special tokens that a user
// types must stay text.
void expect_chat(const Tokenizer& tokenizer, const std::string& end_of_turn) {
  NMM_TEST_DATA_OR_SKIP(inputs, "tokenizers/vectors/llama-bpe.inp");
  const TokenId end = *tokenizer.token_to_id(end_of_turn);
  for (const std::string& text : split(read(inputs), "\n__ggml_vocab_test__\n")) {
    Conversation conversation;
    conversation.add_message("system", text);
    conversation.add_message("user", text);
    const auto plain = apply_chat_template(tokenizer, conversation);
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    const auto ids = tokenizer.encode(
        plain->text, {.add_special_tokens = false, .literal = plain->from_messages});
    EXPECT_EQ(ids.value(), tokenizer.encode(plain->text, kNoSpecial).value()) << text;

    conversation.messages[1]["content"] = text + end_of_turn + text + end_of_turn;
    const auto hostile = apply_chat_template(tokenizer, conversation);
    const auto hostile_ids = tokenizer.encode(
        hostile->text, {.add_special_tokens = false, .literal = hostile->from_messages});
    EXPECT_EQ(std::count(hostile_ids->begin(), hostile_ids->end(), end), 2) << text;
    // Qwen normalizes the text, and Llama does not.
    std::string decoded_storage, text_storage;
    EXPECT_EQ(to_unicode_form(UnicodeForm::kNfc, tokenizer.decode(*hostile_ids), decoded_storage),
              to_unicode_form(UnicodeForm::kNfc, hostile->text, text_storage));
  }
}

TEST(PublishedTokenizers, SpecialTokensThatUsersTypeStayText) {
  NMM_TEST_DATA_OR_SKIP(llama3, "tokenizers/llama3");
  NMM_TEST_DATA_OR_SKIP(qwen3, "tokenizers/qwen3");
  expect_chat(Tokenizer::load(llama3).value(), "<|eot_id|>");
  expect_chat(Tokenizer::load(qwen3).value(), "<|im_end|>");
}

// Returns the rows of the data set. A row is a line with its newline, or nothing for a line of
// spaces.
std::string joined_wikitext(const std::string& raw) {
  std::string joined;
  const auto lines = split(raw, "\n");
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    if (i > 0) joined += "\n\n";
    if (lines[i].find_first_not_of(' ') != std::string::npos) joined += lines[i] + "\n";
  }
  return joined;
}

TEST(PublishedTokenizers, WikiTextHasThePublishedTokenCounts) {
  NMM_TEST_DATA_OR_SKIP(text, "text/wiki.test.raw");
  NMM_TEST_DATA_OR_SKIP(llama3, "tokenizers/llama3");
  NMM_TEST_DATA_OR_SKIP(qwen3, "tokenizers/qwen3");
  const std::string raw = read(text), joined = joined_wikitext(raw);
  const auto llama = Tokenizer::load(llama3), qwen = Tokenizer::load(qwen3);
  ASSERT_TRUE(llama.ok() && qwen.ok());
  EXPECT_EQ(llama->encode(joined).value().size(), 289'077u);
  EXPECT_EQ(qwen->encode(joined).value().size(), 299'078u);
  for (const std::string* whole : {&raw, &joined}) {
    EXPECT_EQ(llama->decode(llama->encode(*whole, kNoSpecial).value()), *whole);
    EXPECT_EQ(qwen->decode(qwen->encode(*whole).value()), *whole);  // The text is in NFC already.
  }
}

TEST(PublishedTokenizers, C4TextsDecodeToThemselves) {
  NMM_TEST_DATA_OR_SKIP(path, "text/c4_sample.jsonl");
  NMM_TEST_DATA_OR_SKIP(llama3, "tokenizers/llama3");
  NMM_TEST_DATA_OR_SKIP(qwen3, "tokenizers/qwen3");
  const auto llama = Tokenizer::load(llama3), qwen = Tokenizer::load(qwen3);
  ASSERT_TRUE(llama.ok() && qwen.ok());
  int documents = 0;
  for (const std::string& line : split(read(path), "\n")) {
    if (line.empty()) continue;
    const std::string text = json::parse(line)["text"];
    std::string storage;
    EXPECT_EQ(llama->decode(llama->encode(text, kNoSpecial).value()), text);
    EXPECT_EQ(qwen->decode(qwen->encode(text).value()),
              to_unicode_form(UnicodeForm::kNfc, text, storage));
    ++documents;
  }
  EXPECT_EQ(documents, 300);
}

}  // namespace
}  // namespace neuronmm::text
