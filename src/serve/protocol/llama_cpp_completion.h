#pragma once
// Prepares requests to llama.cpp's own endpoints, POST /completion and POST /infill, in the way of
// prepared_generation.h. GenerationService calls these functions.

#include <string_view>

#include "serve/protocol/prepared_generation.h"

namespace neuronmm::serve {

ApiResult<PreparedGeneration> prepare_llama_cpp_completion(const ServedModel& model,
                                                           std::string_view body,
                                                           const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_llama_cpp_infill(const ServedModel& model,
                                                       std::string_view body,
                                                       const GenerationContext& context);
// Reads the body of POST /completions, which llama.cpp and OpenAI's clients that leave out "/v1"
// use for different requests. It is llama.cpp's if it has the field n_predict.
ApiResult<PreparedGeneration> prepare_either_completion(const ServedModel& model,
                                                        std::string_view body,
                                                        const GenerationContext& context);

}  // namespace neuronmm::serve
