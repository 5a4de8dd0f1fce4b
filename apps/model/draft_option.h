#pragma once
// The option --draft of `generate`, `chat`, `serve` and `bench`: a model that proposes tokens, or
// the word "ngram" for a lookup in the text so far (model/draft.h).

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "model/speculation.h"
#include "model/transformer.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::apps {

CLI::Option* add_draft_option(CLI::App* command, std::string& draft);

// The draft that --draft names.
struct LoadedDraft {
  std::string option;                               // empty without --draft
  std::unique_ptr<model::Transformer> transformer;  // null for ngram and without --draft

  bool lookup() const { return !option.empty() && transformer == nullptr; }
  // The number of tokens of a text that the draft can read.
  int64_t context_tokens(const model::Transformer& model) const;
};

// Loads the draft of `model` on the same backend. `tokenizer` is that of the model; it is null for
// a command that needs none. Errors: a folder that is no model, has other tokens or is larger than
// the model. A draft with a shorter context is taken, and a line on standard error says so.
Result<LoadedDraft> load_draft(const std::string& option, const model::Transformer& model,
                               const text::Tokenizer* tokenizer);

// Fails if a text of `tokens` tokens, which `what` names, is longer than the draft's context.
Status check_draft_context(const LoadedDraft& draft, const model::Transformer& model,
                           const std::string& what, int64_t tokens);

// Returns what generate() needs to use the draft, or null without --draft. The draft and the model
// must outlive it.
std::unique_ptr<model::Speculation> make_speculation(const LoadedDraft& draft,
                                                     const model::Transformer& model);

// Says on standard error that the draft has failed.
void print_draft_failure(const std::string& option, const std::string& reason);

}  // namespace neuronmm::apps
