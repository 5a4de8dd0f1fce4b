// This test checks how texts are joined from the published files.

#include "eval/perplexity_text.h"

#include <gtest/gtest.h>

#include "eval/eval_test.h"
#include "io/checksum.h"
#include "places.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::eval {
namespace {

class PerplexityText : public testing::Test {
 protected:
  Result<std::string> read(const std::string& task, const std::string& content) const {
    folder_.write_text("file", content);
    NMM_ASSIGN(const auto text, read_perplexity_text(*value_of(parse_tasks(task)).front(),
                                                     {folder_.path() / "file", {}}));
    // Checksum of the file, not of the joined text.
    EXPECT_EQ(text.checksum, io::checksum(content));
    return text.text;
  }
  model::ModelFolder folder_;
};

// The rows of wikitext-2-raw-v1 for this file are "", " = A = \n", "" and " b c \n".
TEST_F(PerplexityText, WikiTextRowsKeepTheirNewline) {
  EXPECT_EQ(value_of(read("wikitext2", " \n = A = \n \n b c \n")), "\n\n = A = \n\n\n\n\n b c \n");
}

TEST_F(PerplexityText, PennTreebankRowsAreStripped) {
  EXPECT_EQ(value_of(read("ptb", " no it was n't \n the <unk> of N \n")),
            "no it was n't\n\nthe <unk> of N");
}

TEST_F(PerplexityText, C4TextIsTheFirst2000Documents) {
  EXPECT_EQ(value_of(read("c4", "{\"text\": \"a\\nb\"}\n{\"text\": \"c\", \"url\": \"u\"}\n")),
            "a\nb\n\nc");
  std::string lines;
  for (int i = 0; i < 2001; ++i) lines += "{\"text\": \"x\"}\n";
  EXPECT_EQ(value_of(read("c4", lines)).size(), 2000u + 2 * 1999);
  const std::string file = (folder_.path() / "file").string();
  EXPECT_TRUE(message_of(read("c4", "{\"text\": \"x\"}\n{\n")).starts_with(file + ":2: malformed"));
  EXPECT_EQ(message_of(read("c4", "{\"txt\": 1}")), file + ":1: \"text\" is missing");
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
