#include "eval/perplexity_text.h"

#include <gtest/gtest.h>

#include "eval/eval_test.h"
#include "io/checksum.h"
#include "places.h"
#include "text/tokenizer.h"

namespace neuronmm::eval {
namespace {

class PerplexityText : public testing::Test {
 protected:
  Result<std::string> read(const std::string& task, const std::string& content) const {
    folder_.write_text("file", content);
    NMM_ASSIGN(const auto text, read_perplexity_text(*value_of(parse_tasks(task)).front(),
                                                     {folder_.path() / "file", {}}));
    EXPECT_EQ(text.checksum, io::checksum(content));  // of the file, not of the joined text
    return text.text;
  }
  model::ModelFolder folder_;
};

// The rows of wikitext-2-raw-v1 are "", " = A = \n", "", " b c \n".
TEST_F(PerplexityText, WikiTextRowsKeepTheirNewline) {
  EXPECT_EQ(value_of(read("wikitext2", " \n = A = \n \n b c \n")), "\n\n = A = \n\n\n\n\n b c \n");
}

TEST_F(PerplexityText, PennTreebankRowsAreStripped) {
  EXPECT_EQ(value_of(read("ptb", " no it was n't \n the <unk> of N \n")),
            "no it was n't\n\nthe <unk> of N");
}

TEST_F(PerplexityText, C4IsItsFirst2000Documents) {
  EXPECT_EQ(value_of(read("c4", "{\"text\": \"a\\nb\"}\n{\"text\": \"c\", \"url\": \"u\"}\n")),
            "a\nb\n\nc");
  std::string lines;
  for (int i = 0; i < 2001; ++i) lines += "{\"text\": \"x\"}\n";
  EXPECT_EQ(value_of(read("c4", lines)).size(), 2000u + 2 * 1999);
  const std::string file = (folder_.path() / "file").string();
  EXPECT_TRUE(message_of(read("c4", "{\"text\": \"x\"}\n{\n")).starts_with(file + ":2: malformed"));
  EXPECT_EQ(message_of(read("c4", "{\"txt\": 1}")), file + ":1: \"text\" is missing");
}

TEST(Documents, AreTheTextsOfJsonLines) {
  const auto documents = value_of(parse_documents(
      "{\"text\": \"a\\nb\"}\r\n\n  \n{\"url\": \"u\", \"text\": \"\"}\n{\"text\": \"c\"}", "f"));
  EXPECT_EQ(documents, (std::vector<std::string>{"a\nb", "", "c"}));
  EXPECT_EQ(message_of(parse_documents("{\"text\": \"a\"}\n\n{\"txt\": 1}", "f")),
            "f:3: \"text\" is missing");
  EXPECT_TRUE(message_of(parse_documents("{\"text\": \"a\"}\nplain", "f")).starts_with("f:2: "));
  EXPECT_TRUE(has(message_of(parse_documents(" \n", "f")), "f: expected documents"));
}

// With a BOS each document begins with its own; without one a blank line stands between them.
TEST(Documents, FollowOneAnother) {
  const auto tokenizer = value_of(text::Tokenizer::load(source_dir() / "models/demo"));
  const auto encoded = value_of(encode_documents(tokenizer, {"A cat.", "", "A dog."}));
  const auto without = [&](const std::string& text) {
    return tokenizer.encode(text, {.add_special_tokens = false}).value();
  };
  std::vector<TokenId> expected;
  for (const char* const document : {"A cat.", "", "A dog."}) {
    expected.push_back(*tokenizer.bos_id());
    for (const TokenId id : without(document)) expected.push_back(id);
  }
  EXPECT_EQ(encoded, expected);

  const auto bare = value_of(text::Tokenizer::parse(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u010a": 2}, "merges": []},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
          "decoder": {"type": "ByteLevel"}, "added_tokens": []})",
      "bare"));
  EXPECT_EQ(value_of(encode_documents(bare, {"ab", "b"})), (std::vector<TokenId>{0, 1, 2, 2, 1}));
}

TEST(PublishedText, WikiTextHasThePublishedTokenCounts) {
  NMM_TEST_DATA_OR_SKIP(data, "text/wiki.test.raw");
  NMM_TEST_DATA_OR_SKIP(llama3, "tokenizers/llama3");
  const Task& task = *value_of(parse_tasks("wikitext2")).front();
  const auto files = value_of(find_files(task, data.parent_path().parent_path()));
  const std::string text = value_of(read_perplexity_text(task, files)).text;
  EXPECT_EQ(value_of(text::Tokenizer::load(llama3)).encode(text).value().size(), 289'077u);
}

}  // namespace
}  // namespace neuronmm::eval
