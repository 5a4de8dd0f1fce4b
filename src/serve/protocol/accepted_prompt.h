#pragma once
// Fills in a chat template so that no conversation is refused for its form. Templates have demands
// that clients cannot know, and some do not even show what models of that family write. prompt.cc
// uses it.

#include "base/result.h"
#include "serve/output/template_traits.h"
#include "text/chat_template.h"
#include "text/conversation.h"

namespace neuronmm::serve {

// Renders the conversation as it is. If the template refuses it, or leaves out calls, results or
// the system's text, renders it in other forms (conversation_variants.h), beginning with those that
// change the least. Returns the first result that has everything, else the first one that the
// template accepts, else the error of the first attempt.
Result<text::ChatPrompt> accepted_prompt(const text::Tokenizer& tokenizer,
                                         const TemplateTraits& traits,
                                         const text::Conversation& conversation);

}  // namespace neuronmm::serve
