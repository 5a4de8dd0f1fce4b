#pragma once
// Reads the bodies of requests for embeddings: POST /v1/embeddings (OpenAI's), /api/embed and
// /api/embeddings (Ollama's), /embedding and /embeddings (llama.cpp's).
// protocol/prepared_embedding.cc uses this file.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/requests/field_reader.h"
#include "serve/requests/text_completion_request.h"

namespace neuronmm::serve {

// The format of the request and of its response.
enum class EmbeddingForm {
  kOpenAi,
  kOllama,     // /api/embed
  kOllamaOld,  // /api/embeddings, one text
  kLlama,
};
constexpr bool is_ollama(EmbeddingForm form) {
  return form == EmbeddingForm::kOllama || form == EmbeddingForm::kOllamaOld;
}

// How an embedding is scaled, by the numbers of llama.cpp's field embd_normalize: -1 leaves it as
// it is, 0 makes the largest value 32760, and p >= 1 makes the p-norm 1.
inline constexpr int64_t kNoNormalization = -1, kLargestNormalization = 0, kEuclideanNorm = 2;

struct EmbeddingRequest {
  EmbeddingForm form = EmbeddingForm::kOpenAi;
  std::string model;                 // empty if the request names no model
  std::string input_param;           // the field that the inputs come from
  std::vector<TextOrTokens> inputs;  // empty only for Ollama's requests that load the model
  std::optional<int64_t> dimensions;
  int64_t normalization = kEuclideanNorm;
  bool base64 = false;  // whether numbers are sent as base64 of fp32 values, the lowest byte first
  bool truncates = false;  // whether an input that is too long loses its end
  bool add_special_tokens = true;
  int64_t priority = 0;
  std::string cache_salt;
  std::vector<std::string> unknown_fields;  // for the access log
};

// The largest number of inputs of one request, which is OpenAI's.
inline constexpr size_t kMostEmbeddingInputs = 2048;

// Return the tables of the fields of the bodies.
const RequestTable& embedding_table(EmbeddingForm form);

// Parses a body. An error names the first wrong field. A request to /embeddings may have OpenAI's
// form as well as llama.cpp's, because clients leave out "/v1". It has llama.cpp's form if it has
// "content" or "embd_normalize".
ApiResult<EmbeddingRequest> parse_embedding_request(EmbeddingForm form, std::string_view body);
ApiResult<EmbeddingRequest> parse_embeddings_of_either(std::string_view body);

}  // namespace neuronmm::serve
