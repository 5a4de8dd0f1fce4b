#include "serve/http/measured_listener.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

namespace neuronmm::serve {
namespace {

using Watch = std::chrono::steady_clock;

double seconds_between(Watch::time_point from, Watch::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

void raise_to(std::atomic<double>& value, double seconds) {
  value.store(std::max(value.load(), seconds));  // only the engine's thread writes
}

class MeasuredListener : public Listener {
 public:
  MeasuredListener(std::shared_ptr<Listener> listener, const Request& request,
                   const MeasurementTargets& targets)
      : listener_(std::move(listener)),
        targets_(targets),
        choices_(static_cast<size_t>(std::max<int64_t>(request.choices, 1))) {}

  void on_start(const PromptUsage& usage) override {
    started_ = Watch::now();
    if (targets_.device_clock) device_start_ = targets_.device_clock();
    targets_.metrics->record_prompt_length(usage.prompt_tokens);
    listener_->on_start(usage);
  }

  void on_prompt_logprobs(std::vector<model::TokenLogprobs> logprobs) override {
    listener_->on_prompt_logprobs(std::move(logprobs));
  }

  void on_embedding(std::vector<float> embedding) override {
    listener_->on_embedding(std::move(embedding));
  }

  bool on_token(int64_t choice, const GeneratedToken& token) override {
    Choice& at = choices_[static_cast<size_t>(choice)];
    const auto now = Watch::now();
    if (at.tokens++ == 0) {
      at.first = now;
      targets_.metrics->record_time_to_first_token(seconds_between(arrived_, now));
      predict_first_token();
    } else {
      targets_.metrics->record_time_between_tokens(seconds_between(at.last, now));
    }
    at.last = now;
    predict_total();
    return listener_->on_token(choice, token);
  }

  void on_finish(int64_t choice, FinishReason reason, std::optional<TokenId> stop_token,
                 const std::string& message) override {
    const Choice& at = choices_[static_cast<size_t>(choice)];
    const auto now = Watch::now();
    const auto started = started_.value_or(now);
    const auto first = at.tokens > 0 ? at.first : now;
    RequestTimes times;
    times.queue = seconds_between(arrived_, started);
    times.prefill = seconds_between(started, first);
    times.decode = seconds_between(first, now);
    times.total = seconds_between(arrived_, now);
    try {
      targets_.metrics->record_finished_answer(reason, at.tokens, times);
    } catch (const std::bad_alloc&) {  // the answer is not counted, but its client is told
    }
    predict_total();
    if (++ended_ == choices_.size() && device_start_ >= 0.0)
      targets_.metrics->record_predicted_total_time(device_seconds());
    listener_->on_finish(choice, reason, stop_token, message);
  }

 private:
  struct Choice {
    int64_t tokens = 0;
    Watch::time_point first, last;
  };

  double device_seconds() const { return targets_.device_clock() - device_start_; }
  void predict_first_token() {
    if (device_start_ < 0.0 || std::exchange(first_predicted_, true)) return;
    raise_to(targets_.predicted->first_token, device_seconds());
    targets_.metrics->record_predicted_time_to_first_token(device_seconds());
  }
  void predict_total() {
    if (device_start_ >= 0.0) raise_to(targets_.predicted->total, device_seconds());
  }

  const std::shared_ptr<Listener> listener_;
  const MeasurementTargets targets_;
  const Watch::time_point arrived_ = Watch::now();
  std::optional<Watch::time_point> started_;
  double device_start_ = -1.0;  // negative without a device or before on_start()
  bool first_predicted_ = false;
  std::vector<Choice> choices_;
  size_t ended_ = 0;
};

}  // namespace

std::shared_ptr<Listener> make_measured_listener(std::shared_ptr<Listener> listener,
                                                 const Request& request,
                                                 const MeasurementTargets& targets) {
  return std::make_shared<MeasuredListener>(std::move(listener), request, targets);
}

}  // namespace neuronmm::serve
