#include "serve/protocol/paced_submission.h"

#include <exception>

namespace neuronmm::serve {

// Passes all calls on, and tells the submission when the request has ended.
class PacedSubmission::PacedListener : public Listener {
 public:
  PacedListener(std::shared_ptr<PacedSubmission> submission, std::shared_ptr<Listener> listener)
      : submission_(std::move(submission)), listener_(std::move(listener)) {}

  void on_start(const PromptUsage& usage) override { listener_->on_start(usage); }
  void on_prompt_logprobs(std::vector<model::TokenLogprobs> logprobs) override {
    listener_->on_prompt_logprobs(std::move(logprobs));
  }
  void on_embedding(std::vector<float> embedding) override {
    listener_->on_embedding(std::move(embedding));
  }
  bool on_token(int64_t choice, const GeneratedToken& token) override {
    return listener_->on_token(choice, token);
  }
  void on_finish(int64_t choice, FinishReason reason, std::optional<TokenId> stop_token,
                 const std::string& message) override {
    listener_->on_finish(choice, reason, stop_token, message);
    submission_->on_finish(reason);
  }

 private:
  const std::shared_ptr<PacedSubmission> submission_;
  const std::shared_ptr<Listener> listener_;
};

PacedSubmission::PacedSubmission(PreparedGeneration generation, EngineInterface& engine,
                                 int64_t retry_after_s)
    : engine_(engine),
      writer_(generation.writer),
      prompt_param_(generation.prompt_param),
      retry_after_s_(retry_after_s) {
  for (size_t i = 0; i < generation.requests.size(); ++i)
    pending_.emplace_back(std::move(generation.requests[i]), generation.listeners[i]);
}

ApiResult<bool> PacedSubmission::start() {
  ApiResult<bool> started = submit_more();
  if (started.ok()) return started;
  writer_->close();
  cancel();
  return started;
}

std::optional<PacedSubmission::Pending> PacedSubmission::take() {
  const std::lock_guard lock(mutex_);
  if (cancelled_ || pending_.empty() || running_ >= kMostAtATime) return std::nullopt;
  std::optional<Pending> taken = std::move(pending_.front());
  pending_.pop_front();
  ++running_;
  return taken;
}

ApiResult<bool> PacedSubmission::submit_more() try {
  while (auto next = take()) {
    auto listener = std::make_shared<PacedListener>(shared_from_this(), next->second);
    const Admission admission = engine_.submit(next->first, std::move(listener));
    const std::lock_guard lock(mutex_);
    if (!admission.refusal) {
      ids_.push_back(admission.id);
      if (cancelled_) engine_.cancel(admission.id);
      continue;
    }
    --running_;
    if (admission.refusal != Refusal::kQueueFull || running_ == 0)
      return refusal_error(*admission.refusal, admission.message, prompt_param_, retry_after_s_);
    pending_.push_front(*std::move(next));
    return true;  // the next one that ends tries again
  }
  return true;
} catch (const std::exception& error) {
  return error_of(error);
}

void PacedSubmission::on_finish(FinishReason reason) {
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  // After a failure the response has ended, and nobody waits for the other requests.
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) return cancel();
  if (const auto submitted = submit_more(); !submitted.ok()) {
    writer_->end_with(submitted.error());
    cancel();
  }
}

void PacedSubmission::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  pending_.clear();
  for (const RequestId id : ids_) engine_.cancel(id);
}

}  // namespace neuronmm::serve
