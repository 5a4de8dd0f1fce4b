#include "eval/task.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "io/folder_writer.h"

namespace neuronmm::eval {
namespace {

namespace fs = std::filesystem;

// Each archive unpacked in the data folder, its file alone there, or the file in a folder of the
// task's name where archives call different files alike.
const std::vector<Task>& table() {
  static const std::vector<Task> tasks = {
      {"wikitext2",
       TaskFormat::kWikiText,
       "",
       "",
       0,
       {{"wikitext-2-raw/wiki.test.raw"}, {"wiki.test.raw"}, {"text/wiki.test.raw"}}},
      {"ptb",
       TaskFormat::kPennTreebank,
       "",
       "",
       0,
       {{"simple-examples/data/ptb.test.txt"}, {"ptb.test.txt"}, {"text/ptb.test.txt"}}},
      {"c4",
       TaskFormat::kC4,
       "",
       "",
       0,
       {{"c4-validation.00000-of-00008.json"},
        {"en/c4-validation.00000-of-00008.json"},
        {"text/c4_sample.jsonl"}}},
      {"openbookqa",
       TaskFormat::kQuestion,
       "",
       "",
       500,
       {{"OpenBookQA-V1-Sep2018/Data/Main/test.jsonl"},
        {"openbookqa/test.jsonl"},
        {"openbookqa_test.jsonl"},
        {"tasks/openbookqa_test.jsonl"}}},
      {"winogrande",
       TaskFormat::kBlank,
       "",
       "",
       1267,
       {{"winogrande_1.1/dev.jsonl"},
        {"winogrande/dev.jsonl"},
        {"winogrande_xl_val.jsonl"},
        {"tasks/winogrande_xl_val.jsonl"}}},
      {"piqa",
       TaskFormat::kGoal,
       "Question: ",
       "\nAnswer:",
       1838,
       {{"physicaliqa-train-dev/dev.jsonl", "physicaliqa-train-dev/dev-labels.lst"},
        {"piqa/valid.jsonl", "piqa/valid-labels.lst"},
        {"piqa_val.jsonl"},
        {"tasks/piqa_val.jsonl"}}},
      {"hellaswag",
       TaskFormat::kEndings,
       "",
       "",
       10042,
       {{"hellaswag_val.jsonl"},
        {"hellaswag/hellaswag_val.jsonl"},
        {"hellaswag_val_1000.jsonl"},
        {"tasks/hellaswag_val_1000.jsonl"}}},
      {"arc_easy",
       TaskFormat::kQuestion,
       "Question: ",
       "\nAnswer:",
       2376,
       {{"ARC-V1-Feb2018-2/ARC-Easy/ARC-Easy-Test.jsonl"},
        {"ARC-Easy-Test.jsonl"},
        {"arc_easy_test.jsonl"},
        {"tasks/arc_easy_test.jsonl"}}},
      {"arc_challenge",
       TaskFormat::kQuestion,
       "Question: ",
       "\nAnswer:",
       1172,
       {{"ARC-V1-Feb2018-2/ARC-Challenge/ARC-Challenge-Test.jsonl"},
        {"ARC-Challenge-Test.jsonl"},
        {"arc_challenge_test.jsonl"},
        {"tasks/arc_challenge_test.jsonl"}}},
  };
  return tasks;
}

Error unknown(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Task& task : table()) names.push_back(task.name);
  return fail("expected some of {}, found \"{}\"", fmt::join(names, ", "), name);
}

}  // namespace

std::span<const Task> all_tasks() { return table(); }

Result<std::vector<const Task*>> parse_tasks(std::string_view names) {
  std::vector<const Task*> tasks;
  for (bool more = true; more;) {
    const size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    const auto found = std::ranges::find(table(), name, &Task::name);
    if (found == table().end()) return unknown(name);
    if (std::ranges::find(tasks, &*found) != tasks.end()) {
      return fail("names {} twice", name);
    }
    tasks.push_back(&*found);
    more = comma != std::string_view::npos;
    if (more) names.remove_prefix(comma + 1);
  }
  return tasks;
}

Result<AvailableTasks> available_tasks(const std::vector<const Task*>& tasks,
                                       const fs::path& folder) {
  NMM_TRY(io::require_folder(folder));
  AvailableTasks available;
  for (const Task* task : tasks) {
    const auto files = find_files(*task, folder);
    if (files.ok()) {
      available.found.push_back(task);
    } else {
      available.skipped.push_back({task, files.error().message});
    }
  }
  if (!available.found.empty()) return available;
  std::string reasons;
  for (const auto& [task, reason] : available.skipped) {
    reasons += (reasons.empty() ? "" : "\n") + reason;
  }
  return Error{reasons};
}

Result<TaskFiles> find_files(const Task& task, const fs::path& folder) {
  NMM_TRY(io::require_folder(folder));
  std::vector<std::string_view> looked_for;
  for (const Task::File& file : task.files) {
    std::error_code ignored;
    const fs::path items = folder / file.path;
    looked_for.push_back(file.path);
    if (!fs::exists(items, ignored)) continue;
    if (file.labels.empty()) return TaskFiles{items, {}};
    const fs::path labels = folder / file.labels;
    if (fs::exists(labels, ignored)) return TaskFiles{items, labels};
    return fail("{}: expected the labels of {}, found no such file", labels.string(),
                items.string());
  }
  return fail("{}: no file for {}: looked for {}", folder.string(), task.name,
              fmt::join(looked_for, ", "));
}

}  // namespace neuronmm::eval
