#include "serve/load/answer_recorder.h"

#include <cctype>

#include <fmt/format.h>

namespace neuronmm::load {
namespace {

constexpr int kOk = 200;

bool is_event_stream(std::string_view content_type) {
  constexpr std::string_view kEvents = "text/event-stream";
  if (content_type.size() < kEvents.size()) return false;
  for (size_t i = 0; i < kEvents.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(content_type[i])) != kEvents[i]) return false;
  }
  return true;
}

}  // namespace

bool AnswerRecorder::body(const ResponseHead& head, std::string_view bytes,
                          LoadClock::time_point now) {
  if (head.status != kOk || !is_event_stream(head.content_type)) {
    constexpr size_t kMostShown = 4096;  // of an error's body
    plain_ += bytes.substr(0, kMostShown - plain_.size());
    return plain_.size() < kMostShown;
  }
  events_.clear();
  const bool fits = parser_.push(bytes, events_);
  for (const ServerEvent& event : events_) {
    if (done_) break;
    if (!take(event, now)) return false;
  }
  if (!fits) fail_with("malformed event", "an event is larger than 16 MiB");
  return fits;
}

bool AnswerRecorder::take(const ServerEvent& event, LoadClock::time_point now) {
  AnswerChunk chunk = read_chunk(event.data);
  switch (chunk.kind) {
    case AnswerChunk::Kind::kDone:
      done_ = true;
      return true;
    case AnswerChunk::Kind::kError:
      fail_with("error event", std::move(chunk.text));
      return false;
    case AnswerChunk::Kind::kGarbage:
      fail_with("malformed event", std::move(chunk.text));
      return false;
    case AnswerChunk::Kind::kToken:
      if (last_token_)
        timing_.gaps.push_back(std::chrono::duration<double>(now - *last_token_).count());
      else
        timing_.ttft = seconds(now);
      last_token_ = now;
      text_ += chunk.text;
      break;
    case AnswerChunk::Kind::kOther:
      break;
  }
  if (chunk.has_choice) timing_.latency = seconds(now);
  if (chunk.prompt_tokens) timing_.prompt_tokens = *chunk.prompt_tokens;
  if (chunk.completion_tokens) tokens_told_ = *chunk.completion_tokens;
  return true;
}

void AnswerRecorder::fail_with(const char* kind, std::string message) {
  failure_ = {kind, std::move(message)};
}

std::variant<RequestTiming, RequestFailure> AnswerRecorder::finish(
    const ResponseHead& head, const std::optional<RequestFailure>& failure) const {
  if (failure_) return *failure_;
  if (failure && head.status == 0) return *failure;
  if (head.status != kOk)
    return RequestFailure{fmt::format("status {}", head.status), error_message(plain_)};
  if (!is_event_stream(head.content_type)) {
    return RequestFailure{"no event stream", fmt::format("content type {:?}: {}", head.content_type,
                                                         error_message(plain_))};
  }
  if (!done_) {
    if (failure) return *failure;
    return RequestFailure{"truncated stream", parser_.inside_event() ? "it ended inside an event"
                                                                     : "it ended without [DONE]"};
  }
  if (!last_token_) return RequestFailure{"no tokens", "the answer has no text"};
  RequestTiming timing = timing_;
  timing.output_tokens = tokens_told_;
  return timing;
}

}  // namespace neuronmm::load
