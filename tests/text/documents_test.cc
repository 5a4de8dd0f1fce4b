// Tests reading documents from JSON lines and encoding them.

#include "text/documents.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "places.h"
#include "text/small_tokenizer.h"
#include "text/training_records.h"

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

// A folder with a tokenizer whose tokens are bytes, perhaps with a chat template.
class Records : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    std::ofstream(folder_ / "tokenizer.json") << small_tokenizer().dump();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void add_template(const std::string& source) const {
    std::ofstream(folder_ / "chat_template.jinja") << source;
  }
  Result<std::vector<std::string>> read(const std::string& lines) const {
    NMM_ASSIGN(const auto tokenizer, Tokenizer::load(folder_));
    NMM_ASSIGN(const auto records, encode_records(tokenizer, lines, "f"));
    std::vector<std::string> texts;
    for (const auto& tokens : records) texts.push_back(tokenizer.decode(tokens));
    return texts;
  }
  std::string error_of(const std::string& lines) const { return message_of(read(lines)); }

  static constexpr const char* kTemplate =
      "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
      "<{{ m.role }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<assistant>{% endif "
      "%}";
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("neuronmm-records-{}", getpid());
};

TEST_F(Records, OfAllKindsMayStandInOneFile) {
  add_template(kTemplate);
  const auto texts = value_of(read(
      "{\"text\": \"a\\nb\"}\r\n\n  \n"
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]})"
      "\n"
      R"({"conversations": [{"from": "human", "value": "1"}, {"from": "gpt", "value": "2"}]})"
      "\n"
      R"({"instruction": "Greet.", "output": "Hi"})"
      "\n"
      R"({"url": "u", "output": 3, "text": ""})"
      "\n{\"text\": \"c\"}"));
  EXPECT_EQ(texts, (std::vector<std::string>{"a\nb\n\n", "<user>hi;<assistant>ho;",
                                             "<user>1;<assistant>2;",
                                             alpaca_prompt("Greet.", "") + "Hi\n\n", "\n\n", "c"}));
}

// Questions without an answer are text to calibrate on, too, and no prompt for an answer follows.
TEST_F(Records, AChatNeedsNoAnswerAndGetsNoPrompt) {
  add_template(kTemplate);
  EXPECT_EQ(value_of(read(R"({"messages": [{"role": "user", "content": "a"}], "text": "b"})")),
            std::vector<std::string>{"<user>a;"});
}

TEST_F(Records, TemplatesSeeAFixedDate) {
  add_template("{{ strftime_now('%Y-%m') }}");
  EXPECT_EQ(value_of(read(R"({"messages": [{"role": "user", "content": "a"}]})")),
            std::vector<std::string>{"2024-07"});
}

TEST_F(Records, ErrorsNameFileAndLine) {
  add_template(kTemplate);
  EXPECT_TRUE(error_of("{\"text\": \"a\"}\n\n{\"txt\": 1}").starts_with("f:3: expected "));
  EXPECT_TRUE(error_of("{\"text\": \"a\"}\nplain").starts_with("f:2"));
  EXPECT_TRUE(error_of("{\"text\": \"a\"}\n[1]").starts_with("f:2: expected an object"));
  EXPECT_TRUE(error_of("\n{\"messages\": []}").starts_with("f:2: "));
  EXPECT_TRUE(error_of("\n{\"conversations\": [{\"from\": \"gpt\"}]}")
                  .starts_with("f:2: \"conversations\": expected"));
  const std::string refused = error_of(R"({"messages": [{"role": "tool", "content": "a"}]})");
  EXPECT_TRUE(refused.starts_with("f:1: ")) << refused;
  EXPECT_NE(refused.find("no tools"), std::string::npos) << refused;
  for (const char* const empty : {"", "\n", " \n"}) {
    EXPECT_TRUE(error_of(empty).starts_with("f: expected documents, ")) << error_of(empty);
  }
}

TEST_F(Records, AModelWithoutATemplateIsRefusedByName) {
  EXPECT_EQ(value_of(read("{\"text\": \"a\"}")), std::vector<std::string>{"a"});
  const std::string refused =
      error_of("{\"text\": \"a\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}");
  EXPECT_TRUE(refused.starts_with("f:2: ")) << refused;
  for (const std::string& word : {folder_.string() + " has no chat template",
                                  std::string("chat_template.jinja"), std::string("\"text\"")}) {
    EXPECT_NE(refused.find(word), std::string::npos) << refused;
  }
}

}  // namespace
}  // namespace neuronmm::text
