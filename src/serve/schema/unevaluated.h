#pragma once
// Applies unevaluatedProperties and unevaluatedItems, which limit the properties and items that no
// other keyword of a schema has evaluated. A shape in normal form holds the limits of all parts of
// its schema, so the remaining properties and items are known. SchemaNormalizer
// (schema_normalizer.h) uses it.

#include "serve/schema/schema_shapes.h"

namespace neuronmm::grammar {

// Returns the shapes of one schema with the limit `schema` on whatever is unevaluated. `kind` is
// kArray for items or kObject for properties. If a value may have several shapes at once, whatever
// one of them evaluates counts for all. Such shapes are therefore combined. Constants of that
// kind, arrays with `contains`, and too many different shapes are errors.
Result<Shapes> with_unevaluated(Shapes shapes, Shape::Kind kind, const Json& schema,
                                Budget& budget);

}  // namespace neuronmm::grammar
