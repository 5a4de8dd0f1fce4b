// Tests how instructions, chats, documents and text become token sequences, and which part of them
// is learned.

#include "finetune/dataset.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "text/small_tokenizer.h"
#include "text/training_records.h"

namespace neuronmm::finetune {
namespace {

io::ModelConfig byte_config() {
  io::ModelConfig config;
  config.vocab_size = 256;
  config.eos_token_ids = {3};
  return config;
}

Result<Dataset> read(const std::string& content, const std::string& path, int64_t cutoff) {
  return read_dataset(content, path, text::parse_or_die(text::small_tokenizer()), byte_config(),
                      cutoff);
}

std::string tokens_as_text(const Example& example) {
  return {example.tokens.begin(), example.tokens.end()};
}

void expect_refused(const std::string& content, const std::string& path,
                    std::initializer_list<const char*> words) {
  const auto data = read(content, path, 1000);
  ASSERT_FALSE(data.ok()) << content;
  for (const char* const word : words)
    EXPECT_NE(data.error().message.find(word), std::string::npos) << data.error().message;
}

TEST(Dataset, OnlyTheResponseToAnInstructionIsScored) {
  const auto data = read(R"([{"instruction": "Add.", "input": "1 2", "output": "3"},
                             {"instruction": "Greet.", "input": "", "output": "Hello"},
                             {"instruction": "Greet.", "output": "Hi"}])",
                         "alpaca.json", 1000);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->examples.size(), 3u);
  const std::string with_input =
      "Below is an instruction that describes a task, paired with an input that provides further "
      "context. Write a response that appropriately completes the request.\n\n### Instruction:\n"
      "Add.\n\n### Input:\n1 2\n\n### Response:\n";
  const std::string without_input =
      "Below is an instruction that describes a task. Write a response that appropriately "
      "completes the request.\n\n### Instruction:\nGreet.\n\n### Response:\n";
  EXPECT_EQ(tokens_as_text(data->examples[0]), with_input + "3\x03");
  EXPECT_EQ(data->examples[0].scored_from, static_cast<int64_t>(with_input.size()));
  EXPECT_EQ(data->examples[0].scored_tokens(), 2);
  EXPECT_EQ(tokens_as_text(data->examples[1]), without_input + "Hello\x03");
  EXPECT_EQ(tokens_as_text(data->examples[2]), without_input + "Hi\x03");
}

TEST(Dataset, LongExamplesAreTruncatedAndExamplesOfAPromptAloneAreSkipped) {
  const std::string content = R"({"instruction": "A", "output": "0123456789"}
{"instruction": "A much longer instruction, longer than that cut-off", "output": "0"}

{"instruction": "A", "output": "012"}
)";
  const int64_t prompt = static_cast<int64_t>(text::alpaca_prompt("A", "").size());
  const auto data = read(content, "data.jsonl", prompt + 4);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->examples.size(), 2u);
  EXPECT_EQ(tokens_as_text(data->examples[0]), text::alpaca_prompt("A", "") + "0123");
  EXPECT_EQ(tokens_as_text(data->examples[1]), text::alpaca_prompt("A", "") + "012\x03");
  EXPECT_EQ(data->truncated, 2);
  EXPECT_EQ(data->skipped, 1);
  const auto none = read(content, "data.jsonl", 20);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("cut-off of 20"), std::string::npos) << none.error().message;
}

TEST(Dataset, TextIsCutIntoSequences) {
  const auto data = read("0123456789", "notes.txt", 4);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->examples.size(), 3u);
  EXPECT_EQ(tokens_as_text(data->examples[1]), "4567");
  EXPECT_EQ(tokens_as_text(data->examples[2]), "89");
  EXPECT_EQ(data->examples[2].scored_tokens(), 1);
  const auto odd = read("012345678", "notes.txt", 4);
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->examples.size(), 2u);  // a single token predicts nothing
  expect_refused("", "notes.txt", {"notes.txt", "found none"});
}

TEST(Dataset, TheExtensionDecidesHowInstructionsAreRead) {
  const std::string lines = "{\"instruction\": \"a\", \"output\": \"b\"}\n\n{\"output\": \"b\"}\n";
  expect_refused(lines, "a.jsonl", {"a.jsonl:3", "\"instruction\"", "missing"});
  expect_refused("[" + lines + "]", "a.json", {"a.json", "line 3"});
  expect_refused("[]", "a.json", {"a.json", "found none"});
}

// A tokenizer folder with a chat template.
class Chats : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "tokenizer.json") << text::small_tokenizer().dump();
    std::ofstream(folder_ / "chat_template.jinja")
        << "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% "
           "endif %}"
           "<{{ m.role }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<assistant>{% "
           "endif %}";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<Dataset> read(const std::string& content, int64_t cutoff) const {
    NMM_ASSIGN(const auto tokenizer, text::Tokenizer::load(folder_));
    return read_dataset(content, "chats.jsonl", tokenizer, byte_config(), cutoff);
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("neuronmm-chats-{}", getpid());
};

TEST_F(Chats, AreScoredFromTheFirstAnswerOn) {
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"},)"
      R"( {"role": "user", "content": "d"}, {"role": "assistant", "content": "e"}]})";
  const auto data = read(chat, 1000);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->examples.size(), 1u);
  EXPECT_EQ(tokens_as_text(data->examples[0]), "<user>a;<assistant>bc;<user>d;<assistant>e;");
  EXPECT_EQ(data->examples[0].scored_from, std::ssize(std::string("<user>a;<assistant>")));
  const auto cut = read(chat, 21);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(tokens_as_text(cut->examples[0]), "<user>a;<assistant>bc");
  EXPECT_EQ(cut->truncated, 1);
  EXPECT_FALSE(read(chat, 19).ok()) << "the prompt alone is as long";
}

TEST_F(Chats, ErrorsNameTheLineOfTheChat) {
  const auto error_of = [&](const std::string& content) {
    const auto data = read(content, 100);
    return data.ok() ? "no error" : data.error().message;
  };
  EXPECT_EQ(error_of("\n"
                     R"({"messages": [{"role": "user", "content": "a"}]})"),
            "chats.jsonl:2: expected an answer of the assistant, found none");
  const std::string refused = error_of(
      R"({"messages": [{"role": "tool", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_TRUE(refused.starts_with("chats.jsonl:1: ")) << refused;
  EXPECT_NE(refused.find("no tools"), std::string::npos) << refused;
}

TEST_F(Chats, DocumentsAreJoined) {
  const auto data = read("{\"text\": \"ab\"}\n{\"text\": \"cde\"}\n", 4);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->examples.size(), 2u);
  EXPECT_EQ(tokens_as_text(data->examples[0]), "ab\n\n");
  EXPECT_EQ(tokens_as_text(data->examples[1]), "cde");
  EXPECT_EQ(data->examples[1].scored_from, 1);
}

}  // namespace
}  // namespace neuronmm::finetune
