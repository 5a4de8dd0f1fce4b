#pragma once
// Prepares a request for text generation: reads the body that a client sent, builds the engine's
// requests, and creates the writer of the response. This file has one function per API.
// GenerationService calls them; nothing here knows about HTTP connections.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/engine/engine.h"
#include "serve/protocol/engine_request.h"
#include "serve/protocol/structured_output.h"
#include "serve/responses/response_writer.h"

namespace neuronmm::serve {

// The environment of a request: things that it needs besides its body.
struct GenerationContext {
  std::shared_ptr<ResponseSink> sink;  // receives the response
  int64_t now = 0;                     // Unix time in seconds
  RandomSource random;                 // source of random seeds and ids
};

// A request that is ready for submit().
struct PreparedGeneration {
  std::string id;                                    // id of the response
  bool stream = false;                               // whether the response is a stream of events
  std::vector<Request> requests;                     // one per prompt
  std::vector<std::shared_ptr<Listener>> listeners;  // one per request
  std::shared_ptr<ResponseWriter> writer;            // the caller closes it if the client leaves
  // The format that the answer must have. The caller compiles it and sets make_constraint of the
  // requests.
  StructuredOutput structured_output;
  bool paced = false;  // whether the requests are submitted a few at a time (paced_submission.h)
  std::string prompt_param;                 // name of the field with the prompt, for errors
  std::vector<std::string> unknown_fields;  // unknown fields of the body, for the access log
  // Notes about what `structured_output` allows although the request's schema forbids it. The
  // caller sets them.
  std::vector<std::string> schema_notes;
};

// Read the body of POST /v1/chat/completions, /v1/responses, /v1/messages and /v1/completions.
// `model` must outlive the answer.
ApiResult<PreparedGeneration> prepare_chat_completion(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_responses_api(const ServedModel& model, std::string_view body,
                                                    const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_anthropic(const ServedModel& model, std::string_view body,
                                                const GenerationContext& context);
ApiResult<PreparedGeneration> prepare_text_completion(const ServedModel& model,
                                                      std::string_view body,
                                                      const GenerationContext& context);

// Submits all requests to the engine and returns their ids, which are needed to cancel them. If the
// engine refuses one, the ones before it are cancelled, the response is closed and the error is
// returned. The sink may be called before this function returns; its content is for the client only
// after success.
ApiResult<std::vector<RequestId>> submit(PreparedGeneration generation, EngineInterface& engine,
                                         int64_t retry_after_s);

}  // namespace neuronmm::serve
