#pragma once
// Prepares requests for embeddings, as prepared_generation.h does for generated text. Each input
// becomes a request to the engine that asks for the embedding of its prompt.

#include "serve/protocol/prepared_generation.h"

namespace neuronmm::serve {

// Read the body of POST /v1/embeddings, /api/embed, /api/embeddings and /embedding.
ApiResult<PreparedGeneration> prepare_openai_embeddings(const ServedModel& model,
                                                        std::string_view body,
                                                        const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_ollama_embed(const ServedModel& model, std::string_view body,
                                                   const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_ollama_embeddings(const ServedModel& model,
                                                        std::string_view body,
                                                        const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_llama_embedding(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context);
// Reads the body of POST /embeddings, which is OpenAI's or llama.cpp's.
ApiResult<PreparedGeneration> prepare_embeddings_of_either(const ServedModel& model,
                                                           std::string_view body,
                                                           const GenerationContext& context);

}  // namespace neuronmm::serve
