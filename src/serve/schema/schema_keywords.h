#pragma once
// Reads the keywords of a schema that limit a single type, such as "minLength", "items" and
// "properties". SchemaNormalizer (schema_normalizer.h) calls it and reads the keywords that combine
// schemas ("allOf", "$ref") itself.

#include <functional>

#include "serve/schema/schema_shapes.h"

namespace neuronmm::grammar {

// A function that returns the names that a schema of `propertyNames` allows. A null language means
// all names.
using NameLanguage = std::function<Result<Language>(const Json& schema)>;

// Returns the shapes that a schema allows, one for each of its types. `schema` must be an object.
// If it has no "type", all types are allowed. A known keyword that cannot be enforced is an error,
// and unknown keywords are ignored.
Result<Shapes> read_types(const SchemaDocument& document, const Json& schema,
                          const NameLanguage& name_language);

}  // namespace neuronmm::grammar
