// Tests reading training data: its forms, its lines, and the messages for damaged files.

#include "text/training_records.h"

#include <random>

#include <gtest/gtest.h>

namespace neuronmm::text {
namespace {

Result<std::vector<TrainingRecord>> parse(const std::string& content, const std::string& source) {
  return source.ends_with(".json") ? parse_record_list(content, source)
                                   : parse_record_lines(content, source);
}

void expect_refused(const std::string& content, const std::string& source,
                    std::initializer_list<const char*> words) {
  const auto all = parse(content, source);
  ASSERT_FALSE(all.ok()) << content;
  for (const char* const word : words)
    EXPECT_NE(all.error().message.find(word), std::string::npos) << all.error().message;
}

TEST(TrainingRecords, AListAndLinesGiveTheSameRecords) {
  const std::string first = R"({"instruction": "Add [{\"1\\", "input": "1 2", "output": "3\n"})";
  const std::string second = R"({"output": "Hi", "instruction": "Greet.", "input": null})";
  const auto list = parse("[" + first + ",\n\n" + second + "]", "a.json");
  const auto lines = parse(first + "\n \t\r\n" + second, "a.jsonl");
  for (const auto& all : {list, lines}) {
    ASSERT_TRUE(all.ok()) << all.error().message;
    ASSERT_EQ(all->size(), 2u);
    EXPECT_EQ(std::get<Instruction>((*all)[0].content).prompt, alpaca_prompt("Add [{\"1\\", "1 2"));
    EXPECT_EQ(std::get<Instruction>((*all)[0].content).response, "3\n");
    EXPECT_EQ((*all)[0].line, 1);
    EXPECT_EQ(std::get<Instruction>((*all)[1].content).prompt, alpaca_prompt("Greet.", ""));
    EXPECT_EQ(std::get<Instruction>((*all)[1].content).response, "Hi");
    EXPECT_EQ((*all)[1].line, 3);
  }
}

TEST(TrainingRecords, ChatsAndDocumentsAreRecords) {
  const auto all = parse(R"({"text": "Once."}
{"id": 3, "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}], "tools": null}
{"conversations": [{"from": "system", "value": "Be."}, {"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}
{"text": "the prompt and the answer", "instruction": "Greet.", "output": "Hi"})",
                         "a.jsonl");
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), 4u);
  EXPECT_EQ(std::get<std::string>((*all)[0].content), "Once.");
  const auto& chat = std::get<Conversation>((*all)[1].content);
  EXPECT_EQ(chat.messages.dump(),
            R"([{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}])");
  const auto& shared = std::get<Conversation>((*all)[2].content);
  EXPECT_EQ(
      shared.messages.dump(),
      R"([{"role":"system","content":"Be."},{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}])");
  EXPECT_EQ(std::get<Instruction>((*all)[3].content).response, "Hi");
  const auto other = parse(R"({"text": "a", "output": 3})", "a.jsonl");
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(std::get<std::string>((*other)[0].content), "a");
  expect_refused(R"({"messages": "hi"})", "a.jsonl",
                 {"a.jsonl:1", "\"messages\"", "list of objects"});
  expect_refused(R"({"conversations": [{"from": "human"}]})", "a.jsonl",
                 {"a.jsonl:1", "\"conversations\"", "\"value\""});
  expect_refused(R"({"text": 5})", "a.jsonl", {"a.jsonl:1", "\"text\"", "5"});
  expect_refused(R"({"txt": "a"})", "a.jsonl", {"a.jsonl:1", "\"messages\""});
}

TEST(TrainingRecords, ErrorsNameFileAndLine) {
  expect_refused("[\n{\"instruction\": \"a\",\n\"output\": \"b\"},\n{\"instruction\": \"[{\\\"\"}]",
                 "a.json", {"a.json:4", "\"output\"", "missing"});
  expect_refused("[{\"instruction\": \"a\", \"output\": 7}]", "a.json",
                 {"a.json:1", "\"output\"", "7"});
  expect_refused("[\n{\"instruction\": \"a\" \"output\"}]", "a.json", {"a.json", "line 2"});
  expect_refused("{\"instruction\": \"a\"}", "a.json", {"a.json", "expected a list"});
  expect_refused("[3]", "a.json", {"a.json", "record 1", "3"});
  expect_refused("[[]]", "a.json", {"a.json:1", "expected an object"});
  expect_refused("{\"instruction\": \"a\", \"output\": \"b\"}\n{\"instruction\": \n", "a.jsonl",
                 {"a.jsonl:2"});
  expect_refused("{\"output\": \"b\"}", "a.jsonl", {"a.jsonl:1", "\"instruction\""});
}

TEST(TrainingRecords, DamagedFilesAreReadOrRefusedByName) {
  const std::string whole =
      "[{\"instruction\": \"Add.\", \"input\": \"1 {2}\", \"output\": \"[\\\"3\\u00e9\"},\n"
      " {\"instruction\": \"Greet.\", \"output\": \"Hi\"}]\n";
  constexpr std::string_view kBytes = "{}[]\",:\\\n a1\xff";
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    for (uint64_t n = 1 + random() % 3; n > 0; --n)
      damaged[random() % damaged.size()] = kBytes[random() % kBytes.size()];
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    const std::string source = random() % 2 == 0 ? "damaged.json" : "damaged.jsonl";
    const auto all = parse(damaged, source);
    SCOPED_TRACE(fmt::format("seed {}, case {}: {}", kSeed, i, damaged));
    if (!all.ok()) {
      EXPECT_TRUE(all.error().message.starts_with(source)) << all.error().message;
    }
  }
}

}  // namespace
}  // namespace neuronmm::text
