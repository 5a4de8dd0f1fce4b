#pragma once
// The data sets of the evaluation: their names, formats, prompts and published file names. Formats
// and scoring rules are those of lm-evaluation-harness (docs/reference/scores.md).

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace neuronmm::eval {

// How the file of a data set is written.
enum class TaskFormat {
  kWikiText,      // text: the rows of wikitext-2-raw-v1
  kPennTreebank,  // text: a sentence per line
  kC4,            // text: a JSON object with "text" per line
  kQuestion,      // a question and labelled choices: ARC, OpenBookQA
  kGoal,          // a goal and two solutions: PIQA
  kEndings,       // a context and its endings: HellaSwag
  kBlank,         // a sentence with a blank and two options: WinoGrande
};

// A data set of the evaluation.
struct Task {
  // The path of a published file, and the path of the file with its labels if they are in another
  // one.
  struct File {
    std::string_view path, labels = {};
  };

  std::string_view name;
  TaskFormat format;
  // The text that the harness puts around a question or goal: "{prefix}{question}{suffix}".
  std::string_view prompt_prefix = "", prompt_suffix = "";
  int64_t published_items = 0;  // items in the split that is scored; 0 for texts
  // The paths, below the data folder, at which the data set may be: where its archive unpacks it,
  // and under the file's bare name. If other archives use the same file name, a folder with the
  // task's name takes the place of the bare name.
  std::vector<File> published;

  bool is_text() const {
    return format == TaskFormat::kWikiText || format == TaskFormat::kPennTreebank ||
           format == TaskFormat::kC4;
  }
};

// Returns wikitext2, ptb and c4, then the six tasks of the paper's mAcc.
std::span<const Task> all_tasks();
inline constexpr int64_t kAccuracyTasks = 6;

// Returns the tasks of a list such as "piqa,c4", in that order. Errors: an unknown name (the
// message has the known ones), a name that appears twice.
Result<std::vector<const Task*>> parse_tasks(std::string_view names);

// The tasks whose files are in a folder, and the reasons why the others were skipped.
struct AvailableTasks {
  struct Skipped {
    const Task* task = nullptr;
    std::string reason;
  };
  std::vector<const Task*> found;
  std::vector<Skipped> skipped;
};
// Looks for the files of all tasks in `folder`. Errors: no such folder, no task with files.
Result<AvailableTasks> available_tasks(const std::vector<const Task*>& tasks,
                                       const std::filesystem::path& folder);

// The files of one data set.
struct TaskFiles {
  std::filesystem::path items, labels;  // `labels` is empty if `items` has them
};
// Finds the files of a task. It looks first for a user's own file, such as "piqa.jsonl"
// ("ptb.txt"), then for the published ones, then for "piqa_*.jsonl". It looks in `folder` and then
// in the folders within it, in alphabetical order. Errors name the folder and every file that was
// looked for, and files that match the last pattern equally.
Result<TaskFiles> find_files(const Task& task, const std::filesystem::path& folder);

}  // namespace neuronmm::eval
