#pragma once
// lm-evaluation-harness's clean-up of HellaSwag (lm_eval/tasks/hellaswag/utils.py), byte for byte.

#include <string>
#include <string_view>

namespace neuronmm::eval {

// White space at both ends goes; " [title]" becomes ". "; what stands in brackets on one line goes
// (artifacts of WikiHow); two spaces become one, in a single pass.
std::string clean_hellaswag(std::string_view text);

// clean("{activity}: {ctx_a} {capitalize(ctx_b)}").
std::string hellaswag_context(std::string_view activity, std::string_view ctx_a,
                              std::string_view ctx_b);

}  // namespace neuronmm::eval
