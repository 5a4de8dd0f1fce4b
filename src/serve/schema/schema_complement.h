#pragma once
// Computes the values that a shape does not allow, which `not`, `if` and oneOf need. Shapes cannot
// express every complement. If they cannot, the result is an error, not an approximation.
// SchemaNormalizer (schema_normalizer.h) uses it.

#include <functional>

#include "serve/schema/schema_shapes.h"

namespace neuronmm::grammar {

// A function that returns a schema which allows exactly the values that the given one does not. The
// result lives as long as the document.
using Negate = std::function<const Json*(const Json& schema)>;

// Returns the shapes of all values that `shape` does not allow. `all` has one shape without limits
// for each type.
Result<Shapes> complement_of(const Shape& shape, const Shapes& all, const Negate& negate,
                             Budget& budget);

}  // namespace neuronmm::grammar
