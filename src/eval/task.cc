#include "eval/task.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

#include "io/folder_writer.h"

namespace neuronmm::eval {
namespace {

namespace fs = std::filesystem;

const std::vector<Task>& table() {
  static const std::vector<Task> tasks = {
      {.name = "wikitext2",
       .format = TaskFormat::kWikiText,
       .published = {{"wikitext-2-raw/wiki.test.raw"}, {"wiki.test.raw"}}},
      {.name = "ptb",
       .format = TaskFormat::kPennTreebank,
       .published = {{"simple-examples/data/ptb.test.txt"}, {"ptb.test.txt"}}},
      {.name = "c4",
       .format = TaskFormat::kC4,
       .published = {{"c4-validation.00000-of-00008.json"},
                     {"en/c4-validation.00000-of-00008.json"}}},
      {.name = "openbookqa",
       .format = TaskFormat::kQuestion,
       .published_items = 500,
       .published = {{"OpenBookQA-V1-Sep2018/Data/Main/test.jsonl"}, {"openbookqa/test.jsonl"}}},
      {.name = "winogrande",
       .format = TaskFormat::kBlank,
       .published_items = 1267,
       .published = {{"winogrande_1.1/dev.jsonl"}, {"winogrande/dev.jsonl"}}},
      {.name = "piqa",
       .format = TaskFormat::kGoal,
       .prompt_prefix = "Question: ",
       .prompt_suffix = "\nAnswer:",
       .published_items = 1838,
       .published = {{"physicaliqa-train-dev/dev.jsonl", "physicaliqa-train-dev/dev-labels.lst"},
                     {"piqa/valid.jsonl", "piqa/valid-labels.lst"}}},
      {.name = "hellaswag",
       .format = TaskFormat::kEndings,
       .published_items = 10042,
       .published = {{"hellaswag_val.jsonl"}, {"hellaswag/hellaswag_val.jsonl"}}},
      {.name = "arc_easy",
       .format = TaskFormat::kQuestion,
       .prompt_prefix = "Question: ",
       .prompt_suffix = "\nAnswer:",
       .published_items = 2376,
       .published = {{"ARC-V1-Feb2018-2/ARC-Easy/ARC-Easy-Test.jsonl"}, {"ARC-Easy-Test.jsonl"}}},
      {.name = "arc_challenge",
       .format = TaskFormat::kQuestion,
       .prompt_prefix = "Question: ",
       .prompt_suffix = "\nAnswer:",
       .published_items = 1172,
       .published = {{"ARC-V1-Feb2018-2/ARC-Challenge/ARC-Challenge-Test.jsonl"},
                     {"ARC-Challenge-Test.jsonl"}}},
  };
  return tasks;
}

bool is_json(TaskFormat format) {
  return format != TaskFormat::kWikiText && format != TaskFormat::kPennTreebank;
}

std::string_view extension(const Task& task) { return is_json(task.format) ? ".jsonl" : ".txt"; }

// Returns the entries of `folder` in alphabetical order, or nothing if it cannot be read.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> all;
  for (fs::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored)) {
    all.push_back(at->path());
  }
  std::ranges::sort(all);
  return all;
}

// Returns the only file with a name like "piqa_*.jsonl", if there is one.
Result<std::optional<fs::path>> find_variant(const Task& task, const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::path& path : entries(folder)) {
    const std::string name = path.filename().string();
    if (name.starts_with(fmt::format("{}_", task.name)) && path.extension() == extension(task) &&
        !fs::is_directory(path, ignored)) {
      found.push_back(path);
    }
  }
  if (found.empty()) return std::optional<fs::path>();
  if (found.size() == 1) return std::optional<fs::path>(found.front());
  return fail("{}: expected one file for {}, found {} and {}: call the one that is meant {}{}",
              folder.string(), task.name, found[0].filename().string(),
              found[1].filename().string(), task.name, extension(task));
}

Result<std::optional<TaskFiles>> find_in(const Task& task, const fs::path& folder) {
  std::error_code ignored;
  const fs::path user_file = folder / fmt::format("{}{}", task.name, extension(task));
  if (fs::is_regular_file(user_file, ignored)) return std::optional(TaskFiles{user_file, {}});
  for (const Task::File& file : task.published) {
    const fs::path items = folder / file.path, labels = folder / file.labels;
    if (!fs::exists(items, ignored)) continue;
    if (file.labels.empty()) return std::optional(TaskFiles{items, {}});
    if (fs::exists(labels, ignored)) return std::optional(TaskFiles{items, labels});
    return fail("{}: expected the labels of {}, found no such file", labels.string(),
                items.string());
  }
  NMM_ASSIGN(const std::optional<fs::path> variant, find_variant(task, folder));
  if (variant) return std::optional(TaskFiles{*variant, {}});
  return std::optional<TaskFiles>();
}

Error nothing_found(const Task& task, const fs::path& folder) {
  std::vector<std::string> names = {fmt::format("{}{}", task.name, extension(task))};
  for (const Task::File& file : task.published) names.emplace_back(file.path);
  names.push_back(fmt::format("{}_*{}", task.name, extension(task)));
  return fail("{}: no file for {}: looked there and in its folders for {}", folder.string(),
              task.name, fmt::join(names, ", "));
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
  std::vector<fs::path> folders = {folder};
  std::error_code ignored;
  for (const fs::path& path : entries(folder)) {
    if (fs::is_directory(path, ignored)) folders.push_back(path);
  }
  for (const fs::path& each : folders) {
    NMM_ASSIGN(const std::optional<TaskFiles> found, find_in(task, each));
    if (found) return *found;
  }
  return nothing_found(task, folder);
}

}  // namespace neuronmm::eval
