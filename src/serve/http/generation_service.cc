#include "serve/http/generation_service.h"

#include <chrono>
#include <exception>
#include <new>
#include <random>
#include <utility>

#include "serve/protocol/tokenizer_endpoints.h"

namespace neuronmm::serve {
namespace {

constexpr int64_t kRetryAfterS = 1;

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t random_number() {
  thread_local std::mt19937_64 random{(uint64_t{std::random_device{}()} << 32) ^
                                      std::random_device{}()};
  return random();
}

MetricSettings metric_settings(const ServiceParts& parts) {
  return {.prefix = parts.metrics_prefix,
          .model_name = parts.model.names.front(),
          .context_tokens = parts.model.context_tokens,
          .predicted = static_cast<bool>(parts.device_clock)};
}

}  // namespace

AnswerService::AnswerService(ServiceParts parts)
    : parts_(std::move(parts)), metrics_(metric_settings(parts_)), constraints_(parts_.model) {}

ApiResult<std::string> AnswerService::text_answer(TextTask task, std::string_view body) const {
  switch (task) {
    case TextTask::kTokenize:
      return answer_tokenize(parts_.model, body);
    case TextTask::kDetokenize:
      return answer_detokenize(parts_.model, body);
    case TextTask::kCountTokens:
      return answer_count_tokens(parts_.model, body);
    case TextTask::kApplyTemplate:
      break;
  }
  return answer_apply_template(parts_.model, body);
}

ApiResult<PreparedAnswer> AnswerService::prepare(AnswerKind kind, std::string_view body,
                                                 std::shared_ptr<AnswerSink> sink) {
  const AnswerContext context{std::move(sink), unix_seconds(), random_number};
  const auto prepare_kind = kind == AnswerKind::kChat       ? prepare_chat
                            : kind == AnswerKind::kItems    ? prepare_items
                            : kind == AnswerKind::kMessages ? prepare_messages
                                                            : prepare_completion;
  auto prepared = prepare_kind(parts_.model, body, context);
  if (!prepared.ok()) return prepared;
  NMM_ASSIGN(auto constraint, constraints_.constraint(prepared->shape));
  for (Request& request : prepared->requests) request.make_constraint = constraint.make;
  prepared->schema_notes = std::move(constraint.notes);
  return prepared;
}

ApiResult<BegunAnswer> AnswerRun::begin_or_throw(AnswerKind kind, std::string_view body,
                                                 std::shared_ptr<AnswerSink> sink) {
  NMM_ASSIGN(PreparedAnswer answer, service_->prepare(kind, body, std::move(sink)));
  BegunAnswer begun{answer.stream, kind == AnswerKind::kMessages ? kTypedPingEvent : kPingEvent,
                    answer.unknown_fields, answer.schema_notes, nullptr};
  const ServiceParts& parts = service_->parts_;
  if (parts.device_clock) begun.predicted = std::make_shared<PredictedTimes>();
  const Measures measures{&service_->metrics_, parts.device_clock, begun.predicted};
  for (size_t i = 0; i < answer.listeners.size(); ++i)
    answer.listeners[i] = measured(answer.listeners[i], answer.requests[i], measures);
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return internal_error("the client has gone");
    writer_ = answer.writer;
  }
  Engine& engine = *parts.engine;
  const EngineCalls calls{[&](Request request, std::shared_ptr<Listener> listener) {
                            return engine.submit(std::move(request), std::move(listener));
                          },
                          [&](RequestId id) { engine.cancel(id); }};
  NMM_ASSIGN(std::vector<RequestId> ids, submit(std::move(answer), calls, kRetryAfterS));
  const std::lock_guard lock(mutex_);
  if (abandoned_) {
    for (const RequestId id : ids) engine.cancel(id);
  }
  ids_ = std::move(ids);
  return begun;
}

ApiResult<BegunAnswer> AnswerRun::begin(AnswerKind kind, std::string_view body,
                                        std::shared_ptr<AnswerSink> sink) noexcept {
  try {
    return begin_or_throw(kind, body, std::move(sink));
  } catch (const std::bad_alloc&) {
    abandon();
    return internal_error("out of memory");
  } catch (const std::exception& error) {
    abandon();
    return internal_error(error.what());
  }
}

void AnswerRun::abandon() {
  std::shared_ptr<ResponseWriter> writer;
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    writer = writer_;
    ids = ids_;
  }
  if (writer) writer->close();
  for (const RequestId id : ids) service_->engine().cancel(id);
}

}  // namespace neuronmm::serve
