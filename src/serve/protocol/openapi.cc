#include "serve/protocol/openapi.h"

#include <utility>

#include "serve/protocol/ollama_models.h"
#include "serve/protocol/tokenizer_endpoints.h"
#include "serve/requests/anthropic_request.h"
#include "serve/requests/chat_request.h"
#include "serve/requests/embedding_request.h"
#include "serve/requests/llama_cpp_request.h"
#include "serve/requests/ollama_request.h"
#include "serve/requests/responses_api_request.h"
#include "serve/requests/text_completion_request.h"

namespace neuronmm::serve {
namespace {

std::string describe_endpoints() {
  Json description = Json::parse(openapi_template());
  Json& schemas = description["components"]["schemas"];
  const std::pair<const char*, const RequestTable&> requests[] = {
      {"ChatCompletionRequest", chat_completion_table()},
      {"ResponseRequest", responses_api_table()},
      {"MessagesRequest", anthropic_table()},
      {"CountTokensRequest", anthropic_prompt_table()},
      {"CompletionRequest", text_completion_table()},
      {"LlamaCppCompletionRequest", llama_cpp_completion_table()},
      {"LlamaCppInfillRequest", llama_cpp_infill_table()},
      {"TokenizeRequest", tokenize_table()},
      {"DetokenizeRequest", detokenize_table()},
      {"ApplyTemplateRequest", chat_prompt_table()},
      {"EmbeddingRequest", embedding_table(EmbeddingForm::kOpenAi)},
      {"LlamaEmbeddingRequest", embedding_table(EmbeddingForm::kLlama)},
      {"OllamaChatRequest", ollama_chat_table()},
      {"OllamaGenerateRequest", ollama_generate_table()},
      {"OllamaEmbedRequest", embedding_table(EmbeddingForm::kOllama)},
      {"OllamaEmbeddingsRequest", embedding_table(EmbeddingForm::kOllamaOld)},
      {"OllamaShowRequest", ollama_show_table()},
  };
  // The template may add facts that a table cannot express, such as fields that exclude each other.
  for (const auto& [name, table] : requests) schemas[name].update(table.schema());
  return dump_json(description);
}

}  // namespace

std::string_view openapi_json() {
  static const std::string json = describe_endpoints();
  return json;
}

}  // namespace neuronmm::serve
