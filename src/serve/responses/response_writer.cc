#include "serve/responses/response_writer.h"

#include <algorithm>
#include <new>
#include <utility>

#include "serve/requests/api_error.h"

namespace neuronmm::serve {

class ResponseWriter::PromptListener : public Listener {
 public:
  PromptListener(std::shared_ptr<ResponseWriter> writer, size_t prompt)
      : writer_(std::move(writer)), prompt_(prompt) {}

  void on_start(const PromptUsage& usage) override {
    const std::lock_guard lock(writer_->mutex_);
    writer_->counts_.cached += usage.cached_tokens;
    if (!std::exchange(writer_->started_, true)) writer_->on_first_start();
    if (!writer_->closed_) writer_->add_start(prompt_, usage);
  }
  void on_prompt_logprobs(std::vector<model::TokenLogprobs> logprobs) override {
    const std::lock_guard lock(writer_->mutex_);
    if (!writer_->closed_) writer_->add_prompt_logprobs(prompt_, std::move(logprobs));
  }
  void on_embedding(std::vector<float> embedding) override {
    const std::lock_guard lock(writer_->mutex_);
    if (!writer_->closed_) writer_->add_embedding(prompt_, std::move(embedding));
  }
  bool on_token(int64_t choice, const GeneratedToken& token) override {
    const std::lock_guard lock(writer_->mutex_);
    return writer_->on_token(prompt_, choice, token);
  }
  void on_finish(int64_t choice, FinishReason reason, std::optional<TokenId> stop_token,
                 const std::string& message) override {
    const std::lock_guard lock(writer_->mutex_);
    writer_->on_finish(prompt_, choice, reason, stop_token, message);
  }

 private:
  const std::shared_ptr<ResponseWriter> writer_;
  const size_t prompt_;
};

ResponseWriter::ResponseWriter(ResponseSettings settings, std::shared_ptr<ResponseSink> sink)
    : settings_(std::move(settings)), sink_(std::move(sink)), unfinished_(answers()) {
  for (const auto& prompt : settings_.prompts) counts_.prompt += std::ssize(prompt);
}

std::vector<std::shared_ptr<Listener>> ResponseWriter::listeners(
    const std::shared_ptr<ResponseWriter>& writer) {
  std::vector<std::shared_ptr<Listener>> list;
  for (size_t prompt = 0; prompt < writer->settings_.prompts.size(); ++prompt)
    list.push_back(std::make_shared<PromptListener>(writer, prompt));
  return list;
}

void ResponseWriter::close() {
  const std::lock_guard lock(mutex_);
  closed_ = is_unwanted_ = true;
}

void ResponseWriter::end_with(const ApiError& error) {
  const std::lock_guard lock(mutex_);
  if (!closed_) fail(error);
}

// An answer that nobody wants runs until it is cancelled, so that it counts as cancelled and not as
// complete.
bool ResponseWriter::on_token(size_t prompt, int64_t choice, const GeneratedToken& token) {
  if (is_unwanted_) return true;
  if (closed_ || !keep(token)) return false;
  ++counts_.completion;
  const auto choices = static_cast<size_t>(settings_.choices);
  return add_token(prompt * choices + static_cast<size_t>(choice), token);
}

bool ResponseWriter::keep(const GeneratedToken& token) {
  // Memory of a token and of a likely token as JSON values, in bytes. Measured.
  constexpr int64_t kTokenBytes = 32, kLikelyTokenBytes = 320;
  if (!keeps_tokens()) return true;
  kept_bytes_ += kTokenBytes;
  if (token.logprobs) kept_bytes_ += (1 + std::ssize(token.logprobs->top)) * kLikelyTokenBytes;
  if (kept_bytes_ <= settings_.most_kept_bytes) return true;
  fail(
      invalid_request("", fmt::format("The answer has become larger than {} MiB, mostly by its log "
                                      "probabilities. Ask for less, or for a stream.",
                                      settings_.most_kept_bytes >> 20)));
  return false;
}

void ResponseWriter::on_finish(size_t prompt, int64_t choice, FinishReason reason,
                               std::optional<TokenId> stop_token, const std::string& message) {
  if (closed_) return;
  try {
    end_answer(prompt, choice, reason, stop_token, message);
  } catch (const std::bad_alloc&) {
    fail(out_of_memory());
  }
}

void ResponseWriter::end_answer(size_t prompt, int64_t choice, FinishReason reason,
                                std::optional<TokenId> stop_token, const std::string& message) {
  if (reason == FinishReason::kError) return fail(internal_error(message));
  if (reason == FinishReason::kNoMemory) return fail(out_of_memory());
  if (reason == FinishReason::kLost) return fail(unavailable("lost", message));
  if (reason == FinishReason::kCancelled)
    return fail(unavailable("cancelled", message.empty() ? "The answer was cancelled." : message));
  const auto choices = static_cast<size_t>(settings_.choices);
  add_end(prompt * choices + static_cast<size_t>(choice),
          {reason == FinishReason::kLength ? "length" : "stop", stop_token});
  if (--unfinished_ > 0) return;
  closed_ = true;
  send_rest();
  sink_->end();
}

// Without memory for its text, the error has an empty body, and a stream ends without it. The
// client must not wait for an answer that never comes.
void ResponseWriter::fail(const ApiError& error) {
  closed_ = true;
  try {
    if (settings_.stream)
      sink_->event(last_event(error));
    else
      sink_->response(error.status, error_body(error));
  } catch (const std::bad_alloc&) {
    if (!settings_.stream) sink_->response(error.status, {});
  }
  sink_->end();
}

Json ResponseWriter::stop_reason(const OutputDetokenizer& text, const End& end) const {
  if (text.stopped()) return text.stop();
  const auto& asked = settings_.stop_token_ids;
  const bool own = end.stop_token && std::ranges::find(asked, *end.stop_token) != asked.end();
  return own ? Json(*end.stop_token) : Json();
}

}  // namespace neuronmm::serve
