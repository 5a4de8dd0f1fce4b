#pragma once
// Server-sent events, the format of streamed answers, and the interface through which writers send
// answers (ResponseSink). ResponseQueue in serve/http implements the interface.

#include <string>
#include <string_view>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {

// The last event of OpenAI's completion streams.
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";
// A comment that keeps the connection open while a client waits long for the next event.
inline constexpr std::string_view kPingEvent = ": ping\n\n";
// The event with the same purpose in Anthropic's Messages API.
inline constexpr std::string_view kTypedPingEvent = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

// Returns an event without a type.
std::string data_event(const Json& data);
// Returns an event with a type: "event: TYPE", and {"type": TYPE, ...data} as its data.
std::string typed_event(std::string_view type, const Json& data);
// Returns an event with a type and its number in the stream, as the Responses API demands: "event:
// TYPE", and {"type": TYPE, "sequence_number": number, ...data} as its data.
std::string typed_event(std::string_view type, const Json& data, int64_t number);
// Returns the event that tells a client of an error in the middle of a stream, when the HTTP status
// has already been sent. The stream ends after this event.
std::string error_event(const ApiError& error);

// Receives a response in order to send it. The calls come from the engine's thread or from the
// thread that closes the response, never from both at once. They must be short: they must not wait
// for a slow reader. They must not close the response themselves.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // Adds one complete event, with the empty line at its end, to a streamed answer.
  virtual void event(std::string_view text) = 0;
  // Sets the response of an answer without a stream. Called once.
  virtual void response(int status, std::string body) = 0;
  // Ends the response. No call follows.
  virtual void end() = 0;
};

}  // namespace neuronmm::serve
