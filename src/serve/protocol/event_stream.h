#pragma once
// Server-sent events, and where answers go to.

#include <string>
#include <string_view>

#include "serve/protocol/json_body.h"

namespace neuronmm::serve {

inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";
inline constexpr std::string_view kPingEvent = ": ping\n\n";  // a comment, for who waits long
// The same as Anthropic's Messages API has it.
inline constexpr std::string_view kTypedPingEvent = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

std::string data_event(const Json& data);
// One that has a type: "event: TYPE", and {"type": TYPE, ...data}.
std::string typed_event(std::string_view type, const Json& data);
// One that has a type and is number `number` of its stream, as the Responses API has them: "event:
// TYPE", and {"type": TYPE, "sequence_number": number, ...data}.
std::string typed_event(std::string_view type, const Json& data, int64_t number);
// In the middle of a stream, whose status is told already; the stream ends behind it.
std::string error_event(const ApiError& error);

// Who sends an answer. Calls come from the engine's thread, or from the one that closes the
// response, never two at once; they must be short, so that slow readers are somebody else's
// concern, and must not close the response themselves.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  // Of an answer that streams: one event, whole with its empty line.
  virtual void event(std::string_view text) = 0;
  // Of one that does not: the body, once.
  virtual void response(int status, std::string body) = 0;
  // The last call.
  virtual void end() = 0;
};

}  // namespace neuronmm::serve
