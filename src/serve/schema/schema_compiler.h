#pragma once
// Compiles a JSON Schema into a grammar whose texts are the documents that the schema allows. The
// server's compiler of structured outputs (serve/http) calls it for response formats and tool
// calls. Documents are written as json_syntax.h says, with properties in the schema's order.
// docs/reference/json_schema.md lists the keywords that are enforced.
//
// A keyword that cannot be enforced is an error, which names the keyword and its place. A schema is
// also an error if no document satisfies it, if all its documents would be endless, or if its
// automaton would be too large. Time and memory are bounded by the budget (grammar/budget.h).

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "serve/grammar/budget.h"
#include "serve/grammar/grammar.h"
#include "serve/schema/schema_document.h"

namespace neuronmm::grammar {

struct SchemaOptions {
  // If set, an object whose schema names properties and does not mention others may have no others.
  // The standard allows any other property there, and models then keep inventing properties.
  bool closed_objects = false;
  // The budget of the request, which is charged. By default, each compilation has its own.
  Budget* budget = nullptr;
};

// A part of a sequence that is a document of a schema.
struct SchemaPart {
  const Json* schema;  // must only live until the grammar is compiled
  std::string source;  // the name of the schema at the beginning of messages
  // Whether SchemaOptions::closed_objects also closes objects whose `properties` is empty.
  bool closes_empty = false;
};
// Literal texts and documents that follow each other.
using Sequence = std::vector<std::variant<std::string, SchemaPart>>;

// A text of `minimum` to `maximum` sequences, each of which is one of `alternatives`. `before`,
// `between` and `after` are the literal texts around and between them. If `alternative_document`
// has a value, a document of its schema may replace the whole text. Tool calls are described this
// way.
struct RepeatedSequences {
  std::vector<Sequence> alternatives;
  std::string before, between, after;
  int64_t minimum = 1, maximum = 1;
  std::optional<SchemaPart> alternative_document = {};
};

// Compiles one schema. `source` begins messages.
Result<CompiledGrammar> compile_schema(const Json& schema, const std::string& source,
                                       const SchemaOptions& options = {});
Result<CompiledGrammar> compile_sequences(const RepeatedSequences& sequences,
                                          const SchemaOptions& options = {});
// Compiles the texts, which need not be JSON, that a regular expression matches from end to end.
// `source` begins messages.
Result<CompiledGrammar> compile_text(std::string_view pattern, const std::string& source,
                                     Budget* budget = nullptr);

}  // namespace neuronmm::grammar
