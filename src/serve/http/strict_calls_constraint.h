#pragma once
// Holds the calls in a free answer to their schemas. The model decides whether it calls a function
// ("tool_choice": "auto"). Once it has written the marker with which its calls begin, the rest of
// the call must follow a grammar; after the call it is free again. StructuredOutputCompiler uses
// this file for functions with "strict": true.
//
// Small models forget the marker and write the JSON of a call on lines of its own. Such a call is
// held to its schema once its name is complete.

#include <memory>

#include "serve/grammar/text_mark.h"
#include "serve/grammar/token_masks.h"
#include "serve/http/thinking_constraint.h"
#include "serve/protocol/structured_output.h"

namespace neuronmm::serve {

// The form that the calls of one request must have.
struct StrictCalls {
  ConstraintFactory make_call;  // makes the constraint of one call, without its marker
  std::shared_ptr<const grammar::TextMark> mark;
  CallMarker marker;
  std::shared_ptr<grammar::TokenMasks> bare_call = nullptr;  // of a call without a marker, if any
};

// Returns a constraint of one answer. `vocabulary` must outlive the result.
std::unique_ptr<model::TokenConstraint> constrain_calls(const StrictCalls& calls,
                                                        const grammar::TokenVocabulary& vocabulary);

}  // namespace neuronmm::serve
