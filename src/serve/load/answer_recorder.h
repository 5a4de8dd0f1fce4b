#pragma once
// One answer as it arrives: what of it counts, and when it came.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/load/completion_api.h"
#include "serve/load/event_stream_parser.h"
#include "serve/load/load_report.h"

namespace neuronmm::load {

using LoadClock = std::chrono::steady_clock;

struct ResponseHead {
  int status = 0;
  std::string content_type;  // as sent
};

// Why a request has no answer. Requests are counted by kind.
struct RequestFailure {
  std::string kind;
  std::string message;
};

class AnswerRecorder {
 public:
  explicit AnswerRecorder(LoadClock::time_point start) : start_(start) {}

  // Bytes of the body, which came at `now`. False: nothing of what follows matters.
  bool body(const ResponseHead& head, std::string_view bytes, LoadClock::time_point now);
  bool done() const { return done_; }  // the answer is whole, whatever becomes of the connection

  // The end. `failure` is the connection's, if it has one; where the response has no status, there
  // was none. Times of a whole answer; output_tokens is -1 where the server did not tell.
  std::variant<RequestTiming, RequestFailure> finish(
      const ResponseHead& head, const std::optional<RequestFailure>& failure) const;
  const std::string& text() const { return text_; }  // the answer's

 private:
  bool take(const ServerEvent& event, LoadClock::time_point now);
  void fail_with(const char* kind, std::string message);
  double seconds(LoadClock::time_point now) const {
    return std::chrono::duration<double>(now - start_).count();
  }

  const LoadClock::time_point start_;
  EventStreamParser parser_;
  std::vector<ServerEvent> events_;
  std::string plain_;  // a body that is no stream of events
  std::string text_;
  RequestTiming timing_;
  int64_t tokens_told_ = -1;
  std::optional<LoadClock::time_point> last_token_;
  std::optional<RequestFailure> failure_;
  bool done_ = false;
};

}  // namespace neuronmm::load
