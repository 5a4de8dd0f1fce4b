#pragma once
// The values that a shape does not allow. What `not` and `if` need; where that would take more than
// shapes can say it is an error, not a guess.

#include <functional>

#include "serve/grammar/schema_shapes.h"

namespace neuronmm::grammar {

// A schema that allows what the given one does not; it lives as long as the document.
using Negate = std::function<const Json*(const Json& schema)>;

// `all`: one shape for each type, with no limits.
Result<Shapes> complement_of(const Shape& shape, const Shapes& all, const Negate& negate);

}  // namespace neuronmm::grammar
