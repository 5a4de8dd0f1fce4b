#pragma once
// One example of a multiple-choice task as the requests that lm-evaluation-harness makes of it.
// Read from the JSON lines that the data sets' authors publish, from an export of the Hugging Face
// data set, and from the form {"query", "choices", "gold"} of other harnesses (docs/evaluation.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/task.h"

namespace neuronmm::eval {

// What is scored: the log-likelihood of the continuation after the context.
struct Request {
  std::string context, continuation;
};

struct TaskItem {
  int64_t line = 0;                     // in its file, from 1
  std::vector<Request> requests;        // one per choice
  std::vector<int64_t> choice_lengths;  // code points, by which acc_norm divides; WinoGrande: none
  int64_t gold = 0;                     // the right choice
};

// `label` is the item's line of a labels file. Errors begin with `source`.
Result<TaskItem> parse_item(const Task& task, std::string_view json,
                            std::optional<std::string_view> label, const std::string& source);

// The first `limit` items (0: all). Empty lines are skipped. Errors name the file and line.
Result<std::vector<TaskItem>> read_items(const Task& task, const TaskFiles& files, int64_t limit);

}  // namespace neuronmm::eval
