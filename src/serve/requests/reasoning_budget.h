#pragma once
// Reads how many tokens the thoughts of an answer may have. Each server has its own name for this
// field. The readers of the three chat APIs use this file.

#include <optional>
#include <vector>

#include "serve/requests/field_reader.h"
#include "text/conversation.h"

namespace neuronmm::serve {

inline constexpr int64_t kNoReasoningLimit = -1;

// Returns the fields that read_reasoning_budget() reads: reasoning_budget, vLLM's
// thinking_token_budget, and llama.cpp's reasoning_budget_tokens and thinking_budget_tokens.
std::vector<RequestField> reasoning_budget_fields();

// Returns the budget, or nothing if there is no limit. `own` is the budget in the API's own field,
// which counts if none of the others is there.
std::optional<int64_t> read_reasoning_budget(FieldReader& fields, std::optional<int64_t> own = {});

// Sets the variables by which templates learn of a budget: thinking_budget, and enable_thinking
// false if the budget is 0. Variables that the client has set stay.
void set_budget_variables(std::optional<int64_t> budget, text::Conversation& conversation);

}  // namespace neuronmm::serve
