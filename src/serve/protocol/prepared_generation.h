#pragma once
// The way of a request: from the body that a client sent to what the engine is asked for, and from
// there to the response. What is around it is HTTP.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/engine/engine.h"
#include "serve/protocol/engine_request.h"
#include "serve/protocol/response_writer.h"
#include "serve/protocol/structured_output.h"

namespace neuronmm::serve {

struct GenerationContext {
  std::shared_ptr<ResponseSink> sink;  // of the response
  int64_t now = 0;                     // Unix time in seconds
  RandomSource random;                 // of seeds and ids
};

struct PreparedGeneration {
  std::string id;                                    // of the response
  bool stream = false;                               // events, else one body
  std::vector<Request> requests;                     // one for each prompt
  std::vector<std::shared_ptr<Listener>> listeners;  // of these
  std::shared_ptr<ResponseWriter> writer;            // to close where the client goes away
  StructuredOutput
      structured_output;     // whoever has grammars sets the requests' make_constraint by it
  std::string prompt_param;  // the field with the prompt, for errors
  std::vector<std::string> unknown_fields;  // for a line of the log
  std::vector<std::string>
      schema_notes;  // what `structured_output` allows beyond the request's schema
};

// POST /v1/chat/completions, /v1/responses, /v1/messages and /v1/completions. `model` must outlive
// the answer.
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

// Submits all requests or none: where one is refused, those before it are cancelled and the
// response is closed. The sink may be called before this returns: what it is told goes to the
// client only after success. Gives the ids to cancel.
ApiResult<std::vector<RequestId>> submit(PreparedGeneration generation, EngineInterface& engine,
                                         int64_t retry_after_s);

}  // namespace neuronmm::serve
