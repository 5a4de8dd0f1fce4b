#pragma once
// Finds out from a chat's prompt whether the answer begins inside the model's thoughts. Many
// templates open the thoughts themselves, so the answer then has only the mark that ends them.
// prompt.cc uses it.

#include "serve/output/reasoning_splitter.h"
#include "serve/output/template_traits.h"
#include "text/chat_template.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// The state of the thoughts where the answer begins, and their marks.
struct PromptReasoning {
  Thinking state = Thinking::kNone;
  ReasoningTags tags = {};
};

// Returns the state at the end of a prompt that a template with these traits made of the
// conversation. Only the template's own text after the last message counts, so that nobody opens
// thoughts by a message. If that text has no mark, answers may begin with thoughts if the template
// knows them and the variable enable_thinking is not false.
PromptReasoning reasoning_of(const TemplateTraits& traits, const text::Conversation& conversation,
                             const text::ChatPrompt& prompt);

}  // namespace neuronmm::serve
