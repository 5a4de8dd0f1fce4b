#pragma once
// The data sets of the evaluation, as data: how a line of each becomes a prompt, and the names that
// its files are published by. Formats and scoring rules are those of lm-evaluation-harness
// (docs/evaluation.md).

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::eval {

enum class TaskFormat {
  kWikiText,      // text: the rows of wikitext-2-raw-v1
  kPennTreebank,  // text: a sentence per line
  kC4,            // text: a JSON object with "text" per line
  kQuestion,      // a question and labelled choices: ARC, OpenBookQA
  kGoal,          // a goal and two solutions: PIQA
  kEndings,       // a context and its endings: HellaSwag
  kBlank,         // a sentence with a blank and two options: WinoGrande
};

struct Task {
  // A file under the name that it is published by, and the one that holds its labels where that is
  // another.
  struct File {
    std::string_view path, labels = {};
  };

  std::string_view name;
  TaskFormat format;
  // What the harness puts around a question or goal: "{prefix}{question}{suffix}".
  std::string_view prompt_prefix = "", prompt_suffix = "";
  int64_t published_items = 0;  // in the split that is scored; of texts: unknown, 0
  // As the archives have it, as it is called alone, and in a folder of the task's name where
  // archives call different files alike.
  std::vector<File> published;

  bool is_text() const {
    return format == TaskFormat::kWikiText || format == TaskFormat::kPennTreebank ||
           format == TaskFormat::kC4;
  }
};

// wikitext2, ptb, c4, then the six of the paper's mAcc.
std::span<const Task> all_tasks();
inline constexpr int64_t kAccuracyTasks = 6;

// "piqa,c4" in that order. Errors: an unknown name (with the known ones), one named twice.
Result<std::vector<const Task*>> parse_tasks(std::string_view names);

// Those of `tasks` whose files are in `folder`, and why the others are left out. Errors: no such
// folder, no task with files.
struct AvailableTasks {
  struct Skipped {
    const Task* task = nullptr;
    std::string reason;
  };
  std::vector<const Task*> found;
  std::vector<Skipped> skipped;
};
Result<AvailableTasks> available_tasks(const std::vector<const Task*>& tasks,
                                       const std::filesystem::path& folder);

struct TaskFiles {
  std::filesystem::path items, labels;  // labels: empty where the items have them
};
// A user's own file, "piqa.jsonl" ("ptb.txt"), then the published ones, then "piqa_*.jsonl"; the
// first of these that is in `folder`, or else in a folder that lies in it (by alphabet). Errors
// name the folder and every file that was looked for, and files that match the last name alike.
Result<TaskFiles> find_files(const Task& task, const std::filesystem::path& folder);

}  // namespace neuronmm::eval
