#pragma once
// The flags --tasks, --data, --limit and --no-bos, which `eval` and `compare` share.

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "eval/evaluation.h"
#include "help.h"
#include "message.h"

namespace neuronmm::apps {

// The values of these flags.
struct EvaluationFlags {
  std::string tasks =
      "wikitext2,ptb,c4,openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge";
  std::string data;
  int64_t limit = 0;
  bool no_bos = false;

  eval::EvaluationSettings settings() const { return {data, limit, !no_bos}; }
};

// Returns the tasks to run. A task whose files are missing is left out and named on standard error.
// Error: an unknown task, or no task that has its files.
inline Result<std::vector<const eval::Task*>> tasks_with_files(const EvaluationFlags& flags) {
  NMM_ASSIGN(const auto wanted, eval::parse_tasks(flags.tasks));
  NMM_ASSIGN(const auto available, eval::available_tasks(wanted, flags.data));
  for (const auto& [task, reason] : available.skipped) {
    print_message("skipped {}: {}\n", task->name, reason);
  }
  return available.found;
}

inline void add_evaluation_flags(CLI::App* command, EvaluationFlags& flags) {
  command->add_option("--data", flags.data, "Read the data sets from this folder")
      ->type_name("DIR")
      ->required()
      ->group(kInput);
  command->add_option("--tasks", flags.tasks, "Run these data sets")
      ->check([](const std::string& names) {
        const auto tasks = eval::parse_tasks(names);
        return tasks.ok() ? std::string() : tasks.error().message;
      })
      ->type_name("NAME,...")
      ->default_str("all nine")
      ->group(kInput);
  command->add_option("--limit", flags.limit, "Use N items of tasks and chunks of texts")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->default_str("all")
      ->group(kInput);
  command->add_flag("--no-bos", flags.no_bos, "Score without the tokenizer's special tokens")
      ->group(kRare);
}

}  // namespace neuronmm::apps
