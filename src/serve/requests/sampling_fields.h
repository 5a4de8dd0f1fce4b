#pragma once
// The fields that say how tokens are drawn. They have the same names and meanings in every API, at
// the top level of a body or in an object such as Ollama's "options". A table that contains
// sampling_fields() can be read by read_sampling().

#include <vector>

#include "serve/requests/field_reader.h"
#include "serve/requests/generation_parameters.h"

namespace neuronmm::serve {

// Returns the rows of the fields that read_sampling() reads.
std::vector<RequestField> sampling_fields();

// Reads the fields into `parameters`. The table of `fields` must contain sampling_fields().
void read_sampling(FieldReader& fields, GenerationParameters& parameters);

}  // namespace neuronmm::serve
