#pragma once
// The clean-up of HellaSwag's texts, equal byte for byte to that of lm-evaluation-harness
// (lm_eval/tasks/hellaswag/utils.py). eval/task_item.cc uses it when it reads the task.

#include <string>
#include <string_view>

namespace neuronmm::eval {

// Removes white space at both ends, replaces " [title]" by ". ", removes brackets with their
// content if they close on the same line (artifacts of WikiHow), and replaces two spaces by one in
// a single pass.
std::string clean_hellaswag(std::string_view text);

// Returns clean_hellaswag("{activity}: {ctx_a} {capitalize(ctx_b)}").
std::string hellaswag_context(std::string_view activity, std::string_view ctx_a,
                              std::string_view ctx_b);

}  // namespace neuronmm::eval
