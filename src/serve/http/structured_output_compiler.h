#pragma once
// Compiles the output format that a request demands (a JSON schema, a pattern, tool calls) into a
// token constraint. The engine uses the constraint to mask tokens, so that the answer keeps to the
// format. GenerationService calls this for every request; compiled grammars are cached.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/token_constraint.h"
#include "serve/grammar/grammar_cache.h"
#include "serve/grammar/token_vocabulary.h"
#include "serve/http/thinking_constraint.h"
#include "serve/protocol/served_model.h"
#include "serve/protocol/structured_output.h"

namespace neuronmm::serve {

// The compiler of one model. All functions may be called from any thread.
class StructuredOutputCompiler {
 public:
  using Factory = std::function<std::unique_ptr<model::TokenConstraint>()>;
  struct Constraint {
    Factory make;                    // empty if the answer may be any text
    std::vector<std::string> notes;  // what it allows although the schema forbids it
  };

  explicit StructuredOutputCompiler(const ServedModel& model);
  // Returns the constraint for an output format. If a schema cannot be enforced, the error names
  // the request's field. A schema of an object that says nothing about additional properties
  // forbids them, as in vLLM.
  ApiResult<Constraint> compile(const StructuredOutput& output);

 private:
  std::shared_ptr<const grammar::TokenVocabulary> vocabulary_;
  ThoughtTokens thought_tokens_;
  grammar::GrammarCache cache_;
};

}  // namespace neuronmm::serve
