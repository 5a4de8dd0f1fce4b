#pragma once
// Reads the object "options" of requests in Ollama's protocol. The names and meanings of the
// options are Ollama's (api/types.go of github.com/ollama/ollama). ollama_request.cc and
// embedding_request.cc use this file.
//
// An option that could change the answer and is not supported is an error, unless its value
// switches it off. Options about memory and threads have no effect. A name that Ollama never had is
// an error.

#include "serve/requests/generation_parameters.h"

namespace neuronmm::serve {

// Returns the field "options".
RequestField ollama_options_field();
// Reads the field "options" into `parameters`.
void read_ollama_options(FieldReader& fields, GenerationParameters& parameters);

}  // namespace neuronmm::serve
