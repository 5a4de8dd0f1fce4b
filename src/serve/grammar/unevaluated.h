#pragma once
// unevaluatedProperties and unevaluatedItems: what a schema says of the properties and items that
// none of its parts has spoken of. In normal form every shape has all that was said, so that what
// is left over is known.

#include "serve/grammar/schema_shapes.h"

namespace neuronmm::grammar {

// Of shapes of one schema. Where a value may be of several shapes at once, what one of them has
// evaluated counts for all, so that these are put together.
Result<Shapes> with_unevaluated(Shapes shapes, Shape::Kind kind, const Json& schema);

}  // namespace neuronmm::grammar
