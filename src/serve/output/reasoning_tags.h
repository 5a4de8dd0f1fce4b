#pragma once
// The marks between which models write their thoughts. Most models write <think>...</think>, and a
// few families have other words. The template's source (template_traits.h) and the end of the
// prompt (protocol/prompt.h) show which marks a model uses.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::serve {

// The marks before and after the thoughts.
struct ReasoningTags {
  std::string begin = "<think>", end = "</think>";
  bool operator==(const ReasoningTags&) const = default;
};

// Returns the marks of all known families, the most common first.
std::span<const ReasoningTags> known_reasoning_tags();

// Returns the marks whose end occurs in a template's source, or nullptr if there are none.
const ReasoningTags* find_reasoning_tags(std::string_view source);

// Returns the texts of all marks. Some tokenizers have special tokens of these texts, which must
// stay in the decoded text.
std::vector<std::string> reasoning_marks();

}  // namespace neuronmm::serve
