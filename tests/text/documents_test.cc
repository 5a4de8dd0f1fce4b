// Tests reading documents from JSON lines and encoding them.

#include "text/documents.h"

#include <gtest/gtest.h>

#include "places.h"

namespace neuronmm::text {
namespace {

template <typename T>
T value_of(Result<T> result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(result).value();
}
template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

TEST(Documents, AreReadFromJsonLines) {
  const auto documents = value_of(parse_documents(
      "{\"text\": \"a\\nb\"}\r\n\n  \n{\"url\": \"u\", \"text\": \"\"}\n{\"text\": \"c\"}", "f"));
  EXPECT_EQ(documents, (std::vector<std::string>{"a\nb", "", "c"}));
  EXPECT_EQ(message_of(parse_documents("{\"text\": \"a\"}\n\n{\"txt\": 1}", "f")),
            "f:3: \"text\" is missing");
  EXPECT_TRUE(message_of(parse_documents("{\"text\": \"a\"}\nplain", "f")).starts_with("f:2: "));
  EXPECT_TRUE(message_of(parse_documents(" \n", "f")).starts_with("f: expected documents"));
}

// Each document begins with a BOS token, if there is one. Otherwise a blank line separates them.
TEST(Documents, ABosTokenOrABlankLineSeparatesThem) {
  const auto tokenizer = value_of(Tokenizer::load(source_dir() / "models/demo"));
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

  const auto bare = value_of(Tokenizer::parse(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u010a": 2}, "merges": []},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
          "decoder": {"type": "ByteLevel"}, "added_tokens": []})",
      "bare"));
  EXPECT_EQ(value_of(encode_documents(bare, {"ab", "b"})), (std::vector<TokenId>{0, 1, 2, 2, 1}));
}

TEST(Documents, EncodeEachGivesTheTokensOfEveryDocument) {
  const auto tokenizer = value_of(Tokenizer::load(source_dir() / "models/demo"));
  const std::vector<std::string> documents = {"A cat.", "", "A dog."};
  const auto each = value_of(encode_each(tokenizer, documents));
  ASSERT_EQ(each.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(each[i], value_of(tokenizer.encode(documents[i])));
}

}  // namespace
}  // namespace neuronmm::text
