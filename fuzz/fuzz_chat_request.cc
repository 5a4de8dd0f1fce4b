// Reads any bytes as the body of a request. The first byte chooses the kind: a chat, a text
// completion, a chat in the format of OpenAI's responses, of Anthropic's messages or of Ollama, or
// texts to embed. The result must be an error with status 400 that is JSON, or a request within the
// promised limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serve/requests/anthropic_request.h"
#include "serve/requests/chat_request.h"
#include "serve/requests/embedding_request.h"
#include "serve/requests/ollama_request.h"
#include "serve/requests/responses_api_request.h"
#include "serve/requests/text_completion_request.h"

namespace {

using namespace neuronmm::serve;

void check_error(const ApiError& error) {
  NMM_CHECK(error.status == 400 && !error.message.empty());
  NMM_CHECK(Json::accept(openai_error_json(error)) && Json::accept(anthropic_error_json(error)));
  NMM_CHECK(Json::accept(ollama_error_json(error)));
}

void check_answer(const GenerationParameters& answer) {
  NMM_CHECK(answer.n >= 1 && answer.n <= kMostChoices);
  NMM_CHECK(answer.stop.size() <= kMostStopStrings);
  for (const std::string& stop : answer.stop) NMM_CHECK(!stop.empty());
  NMM_CHECK(answer.logprobs.value_or(0) <= kMostLogprobs);
}

void check_chat(const ChatRequest& request) {
  check_answer(request.parameters);
  NMM_CHECK(!request.conversation.messages.empty());
  NMM_CHECK(!request.tools.choice.forced() || !request.tools.tools.empty());
}

void check_completion(const TextCompletionRequest& request) {
  check_answer(request.parameters);
  NMM_CHECK(!request.prompts.empty() && request.prompts.size() <= kMostPrompts);
}

void check_ollama(const OllamaRequest& request) {
  check_answer(request.chat.parameters);
  NMM_CHECK(request.empty || request.raw_prompt || !request.chat.conversation.messages.empty());
}

void check_embedding(const EmbeddingRequest& request) {
  const bool ollama =
      request.form == EmbeddingForm::kOllama || request.form == EmbeddingForm::kOllamaOld;
  NMM_CHECK(ollama || !request.inputs.empty());
  NMM_CHECK(request.inputs.size() <= kMostEmbeddingInputs && !request.input_param.empty());
}

template <typename Request, typename Check>
void check(const ApiResult<Request>& request, const Check& check_request) {
  if (!request.ok()) return check_error(request.error());
  check_request(*request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      check(parse_chat_request(body), check_chat);
      break;
    case 1:
      check(parse_text_completion_request(body), check_completion);
      break;
    case 2:
      check(parse_responses_api_request(body),
            [](const ResponsesApiRequest& request) { check_chat(request.chat); });
      break;
    case 3:
      check(parse_anthropic_request(body), check_chat);
      break;
    case 4:
      check(parse_ollama_chat(body), check_ollama);
      break;
    case 5:
      check(parse_ollama_generate(body), check_ollama);
      break;
    case 6:
      check(parse_embeddings_of_either(body), check_embedding);
      break;
    default:
      check(parse_embedding_request(EmbeddingForm::kOllama, body), check_embedding);
  }
  return 0;
}
