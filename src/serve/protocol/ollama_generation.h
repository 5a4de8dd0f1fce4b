#pragma once
// Prepares the requests of Ollama's protocol that generate text, as prepared_generation.h does for
// the other APIs.

#include "serve/protocol/prepared_generation.h"

namespace neuronmm::serve {

// As check_model(), with an error in Ollama's words.
ApiResult<bool> check_ollama_model(const ServedModel& model, std::string_view name);

// Read the body of POST /api/chat and POST /api/generate. An empty request has its whole response
// in the sink, and the result has no request to the engine.
ApiResult<PreparedGeneration> prepare_ollama_chat(const ServedModel& model, std::string_view body,
                                                  const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_ollama_generate(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context);

}  // namespace neuronmm::serve
