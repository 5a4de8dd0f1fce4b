#pragma once
// JSON Schema becomes a grammar whose texts are the documents that the schema allows, written as
// json_syntax.h says, with properties in the schema's order. docs/structured_output.md says which
// keywords are enforced. What cannot be enforced is an error that names the keyword and where it
// stands; so are schemas that no document satisfies, that need an endless one, or whose automaton
// would be too large. Time and memory are bounded whatever the schema says.

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "serve/grammar/grammar.h"
#include "serve/grammar/schema_document.h"

namespace neuronmm::grammar {

struct SchemaOptions {
  // An object that names properties and does not say what others may be has no others. The standard
  // allows anything there; models then go on inventing.
  bool closed_objects = false;
};

struct CompiledGrammar {
  Grammar grammar;
  // What is allowed beyond the schema: where branches of oneOf overlap, and where items may repeat.
  std::vector<std::string> notes;
};

// A place where a document of a schema stands.
struct SchemaPart {
  const Json* schema;  // only while compiling
  std::string source;  // begins messages
};
using Sequence = std::vector<std::variant<std::string, SchemaPart>>;

// Literal text and documents, one after the other: one of several sequences. `before`, `between`
// and `behind` stand around and between `minimum` to `maximum` of them. A document of `instead`, if
// there is one, may stand in place of all of this.
struct RepeatedSequences {
  std::vector<Sequence> alternatives;
  std::string before, between, behind;
  int64_t minimum = 1, maximum = 1;
  std::optional<SchemaPart> instead = {};
};

Result<CompiledGrammar> compile_schema(const Json& schema, const std::string& source,
                                       const SchemaOptions& options = {});
Result<CompiledGrammar> compile_sequences(const RepeatedSequences& sequences,
                                          const SchemaOptions& options = {});
// No JSON: the texts that a regular expression matches from end to end. `source` begins messages.
Result<CompiledGrammar> compile_text(std::string_view pattern, const std::string& source);

}  // namespace neuronmm::grammar
