#pragma once
// Parts of the preparation of a request that several APIs share. prepared_generation.cc implements
// these functions; ollama_generation.cc uses them, too.

#include <memory>
#include <string_view>

#include "serve/output/chat_output.h"
#include "serve/protocol/prepared_generation.h"
#include "serve/protocol/prompt_reasoning.h"
#include "serve/requests/chat_request.h"

namespace neuronmm::serve {

// Returns the settings of a response, without its prompts. Its id begins with `id_prefix`.
ResponseSettings response_settings(const ServedModel& model, const GenerationParameters& fields,
                                   const GenerationContext& context, std::string_view id_prefix);

// Returns how the answer to a chat is read. `seed` is the seed of the random ids of calls.
ChatOutputSettings chat_settings(const ChatRequest& request, ToolSyntax syntax,
                                 const PromptReasoning& reasoning, uint64_t seed);

// Returns the request with its writer, but without the requests to the engine.
PreparedGeneration prepared_generation(std::shared_ptr<ResponseWriter> writer,
                                       const ResponseSettings& settings,
                                       const GenerationParameters& fields);

}  // namespace neuronmm::serve
