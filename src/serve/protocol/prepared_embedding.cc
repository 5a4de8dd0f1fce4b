#include "serve/protocol/prepared_embedding.h"

#include <algorithm>

#include "serve/protocol/ollama_generation.h"
#include "serve/protocol/prompt.h"
#include "serve/requests/embedding_request.h"
#include "serve/responses/embedding_writer.h"

namespace neuronmm::serve {
namespace {

// The largest number of values of all embeddings of one response. Assumed: 64 MB of text.
constexpr int64_t kMostValues = int64_t{1} << 22;

ApiResult<bool> check_sizes(const ServedModel& model, const EmbeddingRequest& request) {
  const int64_t length = model.hidden_size;
  if (length == 0) return true;
  if (request.form == EmbeddingForm::kOpenAi && request.dimensions.value_or(1) > length)
    return invalid_request("dimensions", fmt::format("dimensions: expected at most {}, the length "
                                                     "of this model's embeddings, found {}",
                                                     length, *request.dimensions));
  const int64_t most = kMostValues / std::min(length, request.dimensions.value_or(length));
  if (std::ssize(request.inputs) <= most) return true;
  return invalid_request(request.input_param,
                         fmt::format("{}: expected at most {} inputs at a time of this model, "
                                     "found {}",
                                     request.input_param, most, request.inputs.size()));
}

ApiResult<std::vector<TokenId>> tokens_of(const ServedModel& model, const TextOrTokens& input,
                                          const EmbeddingRequest& request) {
  NMM_ASSIGN(std::vector<TokenId> tokens,
             completion_prompt(model, input, request.add_special_tokens, request.input_param));
  if (request.truncates && std::ssize(tokens) > model.context_tokens)
    tokens.resize(static_cast<size_t>(model.context_tokens));
  if (is_ollama(request.form) && std::ssize(tokens) > model.context_tokens)
    return context_length_exceeded(request.input_param,
                                   "the input length exceeds the context length");
  NMM_TRY(check_prompt(model, tokens, /*max_tokens=*/0, request.input_param));
  return tokens;
}

// Sends the response to a request that only loads the model.
PreparedGeneration loaded(const EmbeddingRequest& request, const GenerationContext& context) {
  const Json body = request.form == EmbeddingForm::kOllamaOld
                        ? Json{{"embedding", Json::array()}}
                        : Json{{"model", request.model}, {"embeddings", Json::array()}};
  context.sink->response(200, dump_json(body));
  context.sink->end();
  PreparedGeneration generation;
  generation.unknown_fields = request.unknown_fields;
  return generation;
}

ApiResult<PreparedGeneration> prepare(const ServedModel& model, const EmbeddingRequest& request,
                                      const GenerationContext& context) {
  NMM_TRY(is_ollama(request.form) ? check_ollama_model(model, request.model)
                                  : check_model(model, request.model));
  if (request.inputs.empty()) return loaded(request, context);
  NMM_TRY(check_sizes(model, request));
  PreparedGeneration generation;
  ResponseSettings settings;
  settings.tokenizer = model.tokenizer;
  settings.model = name_in_answer(model, request.model);
  settings.created = context.now;
  for (const TextOrTokens& input : request.inputs) {
    NMM_ASSIGN(std::vector<TokenId> tokens, tokens_of(model, input, request));
    settings.prompts.push_back(tokens);
    Request submission;
    submission.prompt = std::move(tokens);
    submission.embedding = model.pooling;
    submission.cache_salt = request.cache_salt;
    submission.priority = request.priority;
    generation.requests.push_back(std::move(submission));
  }
  const EmbeddingSettings format{.form = request.form,
                                 .dimensions = request.dimensions,
                                 .normalization = request.normalization,
                                 .base64 = request.base64};
  const auto writer = std::make_shared<EmbeddingWriter>(std::move(settings), format, context.sink);
  generation.listeners = ResponseWriter::listeners(writer);
  generation.writer = writer;
  generation.paced = true;
  generation.prompt_param = request.input_param;
  generation.unknown_fields = request.unknown_fields;
  return generation;
}

ApiResult<PreparedGeneration> prepare_form(EmbeddingForm form, const ServedModel& model,
                                           std::string_view body,
                                           const GenerationContext& context) {
  NMM_ASSIGN(const EmbeddingRequest request, parse_embedding_request(form, body));
  return prepare(model, request, context);
}

}  // namespace

ApiResult<PreparedGeneration> prepare_openai_embeddings(const ServedModel& model,
                                                        std::string_view body,
                                                        const GenerationContext& context) {
  return prepare_form(EmbeddingForm::kOpenAi, model, body, context);
}

ApiResult<PreparedGeneration> prepare_ollama_embed(const ServedModel& model, std::string_view body,
                                                   const GenerationContext& context) {
  return prepare_form(EmbeddingForm::kOllama, model, body, context);
}

ApiResult<PreparedGeneration> prepare_ollama_embeddings(const ServedModel& model,
                                                        std::string_view body,
                                                        const GenerationContext& context) {
  return prepare_form(EmbeddingForm::kOllamaOld, model, body, context);
}

ApiResult<PreparedGeneration> prepare_llama_embedding(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context) {
  return prepare_form(EmbeddingForm::kLlama, model, body, context);
}

ApiResult<PreparedGeneration> prepare_embeddings_of_either(const ServedModel& model,
                                                           std::string_view body,
                                                           const GenerationContext& context) {
  NMM_ASSIGN(const EmbeddingRequest request, parse_embeddings_of_either(body));
  return prepare(model, request, context);
}

}  // namespace neuronmm::serve
