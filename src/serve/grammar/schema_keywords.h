#pragma once
// The keywords of one schema that limit a type each: "minLength", "items", "properties". Those that
// combine schemas ("allOf", "$ref") are normalizer.h's.

#include <functional>

#include "serve/grammar/schema_shapes.h"

namespace neuronmm::grammar {

// The languages of names that `propertyNames` allows; nothing: all.
using NameLanguage = std::function<Result<Language>(const Json& schema)>;

// The shapes that the schema, an object, allows: one for each of its types, all where it names
// none. Keywords that are known and not enforced are errors, unknown ones have no meaning.
Result<Shapes> read_types(const SchemaDocument& document, const Json& schema,
                          const NameLanguage& name_language);

}  // namespace neuronmm::grammar
