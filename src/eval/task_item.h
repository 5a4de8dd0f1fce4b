#pragma once
// Reads the items of a multiple-choice task and makes the requests that lm-evaluation-harness makes
// from them. Three forms are read: the JSON lines that the data sets' authors publish, an export of
// the Hugging Face data set, and the form {"query", "choices", "gold"} of other harnesses
// (docs/reference/scores.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/task.h"

namespace neuronmm::eval {

// A context and the continuation whose log-likelihood after it is scored.
struct Request {
  std::string context, continuation;
};

// An example of a task.
struct TaskItem {
  int64_t line = 0;               // its line in the file, from 1
  std::vector<Request> requests;  // one per choice
  // In code points; acc_norm divides by them; empty for WinoGrande.
  std::vector<int64_t> choice_lengths;
  int64_t gold = 0;  // the number of the right choice, from 0
};

// Reads one item. `label` is the item's line of a labels file. Errors begin with `source`.
Result<TaskItem> parse_item(const Task& task, std::string_view json,
                            std::optional<std::string_view> label, const std::string& source);

// Reads the first `limit` items (0 for all). Empty lines are skipped. Errors name the file and
// line.
Result<std::vector<TaskItem>> read_items(const Task& task, const TaskFiles& files, int64_t limit);

}  // namespace neuronmm::eval
