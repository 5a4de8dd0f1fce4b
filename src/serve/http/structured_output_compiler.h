#pragma once
// Compiles the output format that a request demands (a schema, a pattern, a grammar, calls) into a
// token constraint. The engine uses the constraint to mask tokens, so that the answer keeps to the
// format. GenerationService calls this for every request; compiled grammars are cached.
//
// The work and the memory for one request are bounded (serve/grammar/budget.h). Most formats take
// less than a hundredth of that. The threads that all requests share compile only those, and leave
// the others to a pool of their own (WorkPools::large_formats).

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
  struct Constraint {
    ConstraintFactory make;          // empty if the answer may be any text
    std::vector<std::string> notes;  // what it allows although the schema forbids it
  };

  // The budget of a call. kQuick is a small part of the budget of a request.
  enum class Effort { kQuick, kFull };

  // The model's tokenizer must outlive the compiler.
  explicit StructuredOutputCompiler(const ServedModel& model);
  // Returns the constraint for an output format, or nothing if kQuick does not suffice. If a schema
  // cannot be enforced, the error names the request's field, and the part of the schema. A schema
  // of an object that says nothing about additional properties forbids them, as in vLLM. Setting
  // `cancelled` ends the work with an error.
  // A client whose unfinished answers hold too much memory in grammars gets an error of status 429.
  ApiResult<std::optional<Constraint>> compile(const StructuredOutput& output,
                                               const std::string& client, Effort effort,
                                               const std::atomic<bool>& cancelled);
  // Ends all work at once, also future work, with an error of status 503.
  void stop() { stopped_ = true; }

 private:
  // Returns a mark, which is computed when it is first needed. There are few different ones,
  // because they come from the tables of syntaxes.
  std::shared_ptr<const grammar::TextMark> mark(const std::string& text);
  // Returns a factory that adds the rules for the answer's thoughts to a constraint.
  ConstraintFactory after_thoughts(ConstraintFactory inner, const StructuredOutput& output);

  const text::Tokenizer& tokenizer_;
  std::shared_ptr<const grammar::TokenVocabulary> vocabulary_;
  std::mutex marks_mutex_;
  std::map<std::string, std::shared_ptr<const grammar::TextMark>> marks_;
  grammar::GrammarCache cache_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace neuronmm::serve
