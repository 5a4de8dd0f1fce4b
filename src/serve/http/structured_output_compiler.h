#pragma once
// From the shape that a request asks for to the masks of tokens that hold its answer to it.

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

// Of one model. May be called from any thread.
class StructuredOutputCompiler {
 public:
  using Factory = std::function<std::unique_ptr<model::TokenConstraint>()>;
  struct Constraint {
    Factory make;                    // empty for an answer of any text
    std::vector<std::string> notes;  // what it allows beyond the request's schema
  };

  explicit StructuredOutputCompiler(const ServedModel& model);
  // A schema that cannot be enforced is an error that names the request's field. Objects that say
  // nothing of other properties have none, as in vLLM.
  ApiResult<Constraint> compile(const StructuredOutput& output);

 private:
  std::shared_ptr<const grammar::TokenVocabulary> vocabulary_;
  ThoughtTokens thought_tokens_;
  grammar::GrammarCache cache_;
};

}  // namespace neuronmm::serve
