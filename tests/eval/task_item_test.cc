// This test checks prompts byte for byte from every file format, and the messages for input that is
// refused.

#include "eval/task_item.h"

#include <fstream>

#include <gtest/gtest.h>

#include "eval/eval_test.h"

namespace neuronmm::eval {
namespace {

const Task& task(const std::string& name) { return *value_of(parse_tasks(name)).front(); }

TaskItem item(const std::string& name, const std::string& json,
              std::optional<std::string_view> label = {}) {
  return value_of(parse_item(task(name), json, label, "f:1"));
}

std::string error(const std::string& name, const std::string& json,
                  std::optional<std::string_view> label = {}) {
  return message_of(parse_item(task(name), json, label, "f:1"));
}

void expect_requests(const TaskItem& item, const std::vector<Request>& expected, int64_t gold) {
  ASSERT_EQ(item.requests.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(item.requests[i].context, expected[i].context);
    EXPECT_EQ(item.requests[i].continuation, expected[i].continuation);
  }
  EXPECT_EQ(item.gold, gold);
}

TEST(TaskItem, ArcFromEveryFormat) {
  const std::vector<Request> expected = {{"Question: Why is it 41°F?\nAnswer:", " day"},
                                         {"Question: Why is it 41°F?\nAnswer:", " 5 °C"},
                                         {"Question: Why is it 41°F?\nAnswer:", " a b"}};
  const TaskItem published =
      item("arc_easy",
           R"({"id": "x", "question": {"stem": "Why is it 41°F?", "choices": [
          {"text": "day", "label": "A"}, {"text": "5 °C", "label": "B"},
          {"text": "a b", "label": "C"}]}, "answerKey": "B"})");
  expect_requests(published, expected, 1);
  EXPECT_EQ(published.choice_lengths, (std::vector<int64_t>{3, 4, 3}));
  expect_requests(item("arc_challenge",
                       R"({"question": "Why is it 41°F?", "choices": {"text": ["day", "5 °C",
                           "a b"], "label": ["1", "2", "3"]}, "answerKey": "3"})"),
                  expected, 2);
  expect_requests(item("arc_easy", R"({"query": "Question: Why is it 41°F?\nAnswer:",
                                       "choices": ["day", "5 °C", "a b"], "gold": 0})"),
                  expected, 0);
}

// OpenBookQA's context is the question without other words.
TEST(TaskItem, OpenBookQaFromEveryFormat) {
  const std::vector<Request> expected = {{"The sun is", " hot"}, {"The sun is", " a star"}};
  expect_requests(
      item("openbookqa", R"({"id": "8-1", "question": {"stem": "The sun is", "choices": [
                           {"text": "hot", "label": "A"}, {"text": "a star", "label": "B"}]},
                           "answerKey": " B"})"),
      expected, 1);
  expect_requests(item("openbookqa", R"({"question_stem": "The sun is", "choices": {
                           "text": ["hot", "a star"], "label": ["A", "B"]}, "answerKey": "A"})"),
                  expected, 0);
  expect_requests(item("openbookqa", R"({"query": "Question: The sun is\nAnswer:",
                           "choices": ["hot", "a star"], "gold": 1})"),
                  expected, 1);
}

TEST(TaskItem, PiqaFromEveryFormat) {
  const std::vector<Request> expected = {{"Question: dresser\nAnswer:", " use a pin "},
                                         {"Question: dresser\nAnswer:", "  glue  it"}};
  const std::string unlabelled = R"({"goal": "dresser", "sol1": "use a pin ", "sol2": " glue  it")";
  const TaskItem labelled = item("piqa", unlabelled + R"(, "label": 1, "query": "ignored"})");
  expect_requests(labelled, expected, 1);
  EXPECT_EQ(labelled.choice_lengths, (std::vector<int64_t>{10, 9}));
  expect_requests(item("piqa", unlabelled + "}", "0"), expected, 0);
}

TEST(TaskItem, HellaSwagFromEveryFormat) {
  const std::string published =
      R"({"ind": 24, "activity_label": "Roof shingle removal", "ctx_a": "A man sits on a roof.",
          "ctx_b": "he SAYS", "ctx": "A man sits on a roof. he SAYS", "split": "val",
          "endings": ["[step] Go  on.", "falls [title] Next"], "label": 1})";
  const std::string context = "Roof shingle removal: A man sits on a roof. He says";
  const std::vector<Request> expected = {{context, "  Go on."}, {context, " falls. Next"}};
  const TaskItem read = item("hellaswag", published);
  expect_requests(read, expected, 1);
  EXPECT_EQ(read.choice_lengths, (std::vector<int64_t>{7, 11}));
  // Hugging Face writes the label as a string. Text that was cleaned before is used unchanged.
  expect_requests(item("hellaswag", R"({"query": "Roof: [x]", "choices": [" a", "b"], "gold": 0})"),
                  {{"Roof: [x]", "  a"}, {"Roof: [x]", " b"}}, 0);
  const std::string as_text = R"({"activity_label": "Tango", "ctx_a": "They dance.", "ctx_b": "",
                                  "endings": ["a", "b"], "label": "0"})";
  expect_requests(item("hellaswag", as_text),
                  {{"Tango: They dance.", " a"}, {"Tango: They dance.", " b"}}, 0);
}

TEST(TaskItem, WinoGrandeScoresTheRestOfTheSentence) {
  const TaskItem read = item("winogrande",
                             R"({"qID": "3", "sentence": "Sarah beat Maria so _ got a_b. ",
                                 "option1": "Sarah", "option2": "Maria", "answer": "2"})");
  expect_requests(
      read,
      {{"Sarah beat Maria so Sarah", " got a_b."}, {"Sarah beat Maria so Maria", " got a_b."}}, 1);
  EXPECT_TRUE(read.choice_lengths.empty());
}

TEST(TaskItem, BadItemsNameTheFileTheFieldAndWhatWasFound) {
  EXPECT_TRUE(error("piqa", "{").starts_with("f:1: malformed JSON"));
  EXPECT_EQ(error("piqa", "[]"), "f:1: expected a JSON object, found an array of 0");
  EXPECT_EQ(error("piqa", "{}"), "f:1: \"goal\" is missing");
  EXPECT_EQ(error("piqa", R"({"goal": 7})"), "f:1: \"goal\": expected a string, found 7");
  const std::string solutions = R"({"goal": "g", "sol1": "a", "sol2": "b")";
  EXPECT_EQ(error("piqa", solutions + "}"), "f:1: \"label\" is missing");
  EXPECT_EQ(error("piqa", solutions + R"(, "label": 2})"),
            "f:1: \"label\": expected 0 ... 1, found 2");
  EXPECT_EQ(error("piqa", solutions + R"(, "label": 0.5})"),
            "f:1: \"label\": expected 0 ... 1, found 0.5");
  EXPECT_EQ(error("piqa", solutions + "}", "2"),
            "f:1: its line in the labels file: expected 0 or 1, found \"2\"");
  const std::string winogrande = R"({"option1": "a", "option2": "b", "sentence": )";
  EXPECT_EQ(error("winogrande", winogrande + R"("no blank", "answer": "1"})"),
            "f:1: \"sentence\": expected a blank (\"_\"), found \"no blank\"");
  for (const std::string answer : {"\"0\"", "\"3\"", "\"\"", "-1"}) {
    EXPECT_EQ(error("winogrande", winogrande + R"("a _", "answer": )" + answer + "}"),
              "f:1: \"answer\": expected 1 ... 2, found " + answer);
  }
  const std::string question = R"({"question": {"stem": "s", "choices": [)"
                               R"({"text": "a", "label": "A"}, {"text": "b", "label": "B"}]})";
  EXPECT_EQ(error("arc_easy", question + R"(, "answerKey": "C"})"),
            "f:1: \"answerKey\": expected one of A, B, found \"C\"");
  EXPECT_EQ(error("arc_easy", R"({"question": {"stem": "s", "choices": [3]}, "answerKey": "A"})"),
            "f:1: \"question\": \"choices\": expected an array of objects, found an array of 1");
  EXPECT_EQ(error("arc_easy", R"({"query": "s", "choices": ["a", "b"], "gold": 0})"),
            "f:1: \"query\": expected \"Question: \" before and \"\\nAnswer:\" after it, found "
            "\"s\"");
  EXPECT_EQ(error("hellaswag", R"({"query": "s", "choices": ["a", "b"], "gold": 2})"),
            "f:1: \"gold\": expected 0 ... 1, found 2");
  EXPECT_EQ(error("hellaswag", R"({"query": "s", "choices": ["a", 1], "gold": 0})"),
            "f:1: \"choices\": expected an array of strings, found an array of 2");
  EXPECT_EQ(error("hellaswag", R"({"query": "s", "choices": ["a"], "gold": 0})"),
            "f:1: expected at least 2 choices, found 1");
}

class TaskFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    folder_.write_text(name, text);
    return (folder_.path() / name).string();
  }
  Result<std::vector<TaskItem>> read(const std::string& items, const std::string& labels = "",
                                     int64_t limit = 0) const {
    return read_items(task("piqa"), {items, labels}, limit);
  }
  model::ModelFolder folder_;
};

const char* const kGoal = R"({"goal": "g", "sol1": "a", "sol2": "b"})";

TEST_F(TaskFiles, ReadsLinesAndLabelsUpToTheLimit) {
  const std::string items =
      write("items", std::string(kGoal) + "\r\n\n" + kGoal + "\n" + kGoal + "\n");
  const std::string labels = write("labels", "1\n\n0\r\n1");
  const auto all = value_of(read(items, labels));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].line, 1);
  EXPECT_EQ(all[1].line, 3);
  EXPECT_EQ(all[0].gold, 1);
  EXPECT_EQ(all[1].gold, 0);
  EXPECT_EQ(value_of(read(items, labels, 2)).size(), 2u);
}

TEST_F(TaskFiles, ErrorsNameFileAndLine) {
  const std::string items = write("items", std::string(kGoal) + "\n" + kGoal + "\n");
  EXPECT_EQ(message_of(read(items)), items + ":1: \"label\" is missing");
  const std::string short_labels = write("short", "1\n"), bad_labels = write("bad", "1\nx\n");
  EXPECT_EQ(message_of(read(items, short_labels)),
            short_labels + ": expected 2 labels, one for each line of " + items + ", found 1");
  EXPECT_TRUE(has(message_of(read(items, bad_labels)), items + ":2: ")) << bad_labels;
  const std::string empty = write("empty", "\n\n");
  EXPECT_EQ(message_of(read(empty)), empty + ": expected items, found none");
}

TEST_F(TaskFiles, FilesAreFoundInOrderOfPreference) {
  const auto find = [&] { return find_files(task("hellaswag"), folder_.path()); };
  const auto found = [&] {
    return std::filesystem::relative(value_of(find()).items, folder_.path()).string();
  };
  EXPECT_EQ(message_of(find()),
            folder_.path().string() +
                ": no file for hellaswag: looked there and in its folders for hellaswag.jsonl, "
                "hellaswag_val.jsonl, hellaswag/hellaswag_val.jsonl, hellaswag_*.jsonl");
  // A file is preferred to the ones created before it.
  std::filesystem::create_directory(folder_.path() / "some");
  write("some/hellaswag_val_1000.jsonl", "");
  EXPECT_EQ(found(), "some/hellaswag_val_1000.jsonl");
  write("some/hellaswag_val.jsonl", "");
  EXPECT_EQ(found(), "some/hellaswag_val.jsonl");
  write("hellaswag_mine.jsonl", "");
  EXPECT_EQ(found(), "hellaswag_mine.jsonl");
  write("hellaswag_val.jsonl", "");
  EXPECT_EQ(found(), "hellaswag_val.jsonl");
  write("hellaswag.jsonl", "");
  EXPECT_EQ(found(), "hellaswag.jsonl");
  EXPECT_TRUE(has(message_of(find_files(task("piqa"), folder_.path() / "none")), "none"));
}

TEST_F(TaskFiles, TwoEquallyGoodMatchesAreAnError) {
  write("c4_b.jsonl", "");
  write("c4_a.jsonl", "");
  write("c4_a.txt", "");
  EXPECT_EQ(message_of(find_files(task("c4"), folder_.path())),
            folder_.path().string() +
                ": expected one file for c4, found c4_a.jsonl and c4_b.jsonl: call the one that is "
                "meant c4.jsonl");
}

TEST_F(TaskFiles, LabelsAreFoundNextToTheItems) {
  std::filesystem::create_directory(folder_.path() / "piqa");
  write("piqa/valid.jsonl", "");
  EXPECT_TRUE(has(message_of(find_files(task("piqa"), folder_.path())), "piqa/valid-labels.lst"));
  write("piqa/valid-labels.lst", "");
  EXPECT_EQ(value_of(find_files(task("piqa"), folder_.path())).labels.filename(),
            "valid-labels.lst");
}

TEST(Tasks, NamesAreCheckedBeforeAnythingIsRead) {
  EXPECT_EQ(value_of(parse_tasks("piqa,c4")).at(1)->name, "c4");
  const std::string known =
      "expected some of wikitext2, ptb, c4, openbookqa, winogrande, piqa, hellaswag, "
      "arc_easy, arc_challenge, found ";
  EXPECT_EQ(message_of(parse_tasks("piqa,boolq")), known + "\"boolq\"");
  EXPECT_EQ(message_of(parse_tasks("")), known + "\"\"");
  EXPECT_EQ(message_of(parse_tasks("piqa,")), known + "\"\"");
  EXPECT_EQ(message_of(parse_tasks("c4,piqa,c4")), "names c4 twice");
}

// Every published item becomes requests.
TEST(PublishedTasks, AllItemsAreRead) {
  NMM_TEST_DATA_OR_SKIP(folder, "tasks");
  for (const Task& task : all_tasks()) {
    if (task.is_text()) continue;
    const auto files = value_of(find_files(task, folder));
    const auto items = value_of(read_items(task, files, 0));
    EXPECT_EQ(std::ssize(items), task.name == "hellaswag" ? 1000 : task.published_items)
        << task.name;
  }
}

}  // namespace
}  // namespace neuronmm::eval
