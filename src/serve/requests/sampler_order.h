#pragma once
// Reads the field "samplers" of llama.cpp, which lists the samplers that are used, in their order.
// read_sampling() (sampling_fields.h) calls it.

#include "serve/requests/field_reader.h"
#include "serve/requests/generation_parameters.h"

namespace neuronmm::serve {

// Returns the row of the field.
RequestField samplers_field();

// Switches off the samplers that the list lacks, and puts temperature last if the list does. The
// other parameters must have been read before. An empty list is as none. Records an error for an
// unknown name, and for an order that the sampler does not have: penalties, dry, top_n_sigma,
// top_k, typ_p, top_p, min_p, xtc, with temperature last or before top_k.
void read_samplers(FieldReader& fields, GenerationParameters& parameters);

}  // namespace neuronmm::serve
