#include "serve/requests/reasoning_budget.h"

#include <array>

namespace neuronmm::serve {
namespace {

struct BudgetName {
  const char *name, *meaning;
};

constexpr std::array<BudgetName, 4> kNames = {{
    {"reasoning_budget",
     "Largest number of tokens of the thoughts, which are then ended so that the answer follows. 0 "
     "is none, and -1 is no limit. It has no effect on models that cannot think. By default -1"},
    {"thinking_token_budget", "Another name of reasoning_budget, as vLLM writes it"},
    {"reasoning_budget_tokens", "Another name of reasoning_budget, as llama.cpp writes it"},
    {"thinking_budget_tokens", "Another name of reasoning_budget, as llama.cpp writes it"},
}};

}  // namespace

std::vector<RequestField> reasoning_budget_fields() {
  std::vector<RequestField> fields;
  for (const auto& [name, meaning] : kNames)
    fields.push_back(RequestField::integer(name, kNoReasoningLimit, INT64_MAX, meaning));
  return fields;
}

std::optional<int64_t> read_reasoning_budget(FieldReader& fields, std::optional<int64_t> own) {
  std::optional<int64_t> budget;
  for (const auto& [name, meaning] : kNames) {
    const auto value = fields.integer(name);
    if (value && budget && *value != *budget)
      fields.add_mismatch(name, "the same number as in the other field of the budget");
    if (value) budget = value;
  }
  if (!budget) budget = own;
  return budget == kNoReasoningLimit ? std::nullopt : budget;
}

void set_budget_variables(std::optional<int64_t> budget, text::Conversation& conversation) {
  if (!budget) return;
  Json& variables = conversation.template_kwargs;
  if (!variables.contains("thinking_budget")) variables["thinking_budget"] = *budget;
  if (*budget == 0 && !variables.contains("enable_thinking")) variables["enable_thinking"] = false;
}

}  // namespace neuronmm::serve
