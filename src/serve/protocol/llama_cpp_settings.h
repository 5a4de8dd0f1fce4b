#pragma once
// The parameters of an answer as llama.cpp's server tells them ("generation_settings"), and their
// defaults at llama.cpp's own endpoints.

#include "serve/engine/request.h"
#include "serve/protocol/served_model.h"
#include "serve/requests/llama_cpp_request.h"

namespace neuronmm::serve {

// Sets what the request leaves out and the model's generation_config.json does not recommend to the
// values of llama.cpp's server.
void fill_llama_cpp_defaults(const io::GenerationConfig& generation, LlamaCppRequest& request);

// Returns "generation_settings" of an answer, or of one to an empty request for /props and /slots.
// `submission` is the engine's request that was made of `request`.
Json llama_cpp_settings_json(const ServedModel& model, const LlamaCppRequest& request,
                             const Request& submission);

}  // namespace neuronmm::serve
