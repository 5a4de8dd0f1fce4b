#include "serve/load/load_test.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "base/interrupt.h"
#include "serve/load/answer_recorder.h"
#include "serve/load/connection.h"

namespace neuronmm::load {
namespace {

namespace asio = boost::asio;
using Failure = std::optional<RequestFailure>;

constexpr double kEnd = 1e9;  // seconds: nobody waits so long, and clocks can tell it

// An exception in a coroutine is one of who runs the context.
void rethrow(const std::exception_ptr& error) {
  if (error) std::rethrow_exception(error);
}

asio::awaitable<void> wait(asio::steady_timer& timer) {
  boost::system::error_code woken;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

LoadClock::duration in_ticks(std::chrono::duration<double> seconds) {
  return std::chrono::duration_cast<LoadClock::duration>(seconds);
}

class AnswerSinkOfLoad : public ResponseSink {
 public:
  explicit AnswerSinkOfLoad(LoadClock::time_point start) : answer(start) {}
  bool body(const ResponseHead& head, std::string_view bytes) override {
    return answer.body(head, bytes, LoadClock::now());
  }
  bool satisfied() const override { return answer.done(); }

  AnswerRecorder answer;
};

class LoadRun {
 public:
  LoadRun(const LoadSettings& settings, std::span<const LoadPrompt> prompts, Progress& progress)
      : settings_(settings),
        prompts_(prompts),
        progress_(progress),
        client_(context_, settings.url, settings.api_key),
        slot_free_(context_) {}

  // Tokens that the server did not count are those of the answer's text.
  Result<LoadMeasurement> run(const text::Tokenizer& tokenizer) {
    start_ = LoadClock::now();
    asio::co_spawn(context_, dispatch(), rethrow);
    asio::co_spawn(context_, watch(), rethrow);
    context_.run();
    const auto end = result_.interrupted ? LoadClock::now() : last_end_;
    result_.duration = std::chrono::duration<double>(end - start_).count();
    result_.unfinished = running_;
    for (const auto& [index, text] : uncounted_) {
      NMM_ASSIGN(const auto ids, tokenizer.encode(text, {.add_special_tokens = false}));
      result_.completed[index].output_tokens = std::ssize(ids);
    }
    return std::move(result_);
  }

 private:
  asio::awaitable<void> dispatch() {
    const Failure failure = co_await client_.resolve();
    if (failure) {
      for (size_t i = 0; i < prompts_.size(); ++i) count(*failure);
      last_end_ = LoadClock::now();
      context_.stop();
      co_return;
    }
    const auto times = arrival_times(std::ssize(prompts_), settings_.arrivals);
    const int64_t most = settings_.concurrency.value_or(std::numeric_limits<int64_t>::max());
    asio::steady_timer arrival(context_);
    start_ = LoadClock::now();
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const std::chrono::duration<double> after(std::min(times[i], kEnd));
      arrival.expires_at(start_ + in_ticks(after));
      if (arrival.expiry() > LoadClock::now()) co_await wait(arrival);
      while (running_ >= most) {
        slot_free_.expires_at(LoadClock::time_point::max());
        co_await wait(slot_free_);
      }
      result_.peak_concurrency = std::max(result_.peak_concurrency, ++running_);
      asio::co_spawn(context_, ask(prompts_[i]), rethrow);
    }
  }

  asio::awaitable<void> ask(const LoadPrompt& prompt) {
    std::unique_ptr<HttpConnection> connection = take_connection();
    const std::string body = request_body(settings_.request, prompt);
    const auto start = LoadClock::now();
    AnswerSinkOfLoad sink(start);
    ResponseHead head;
    const Failure failure =
        co_await connection->exchange({"POST", endpoint_path(settings_.request.endpoint), body},
                                      start + in_ticks(settings_.timeout), head, sink);
    record(sink.answer, head, failure, prompt);
    if (connection->reusable()) idle_.push_back(std::move(connection));
    last_end_ = LoadClock::now();
    --running_;
    slot_free_.cancel();
    if (++ended_ == prompts_.size()) context_.stop();
  }

  std::unique_ptr<HttpConnection> take_connection() {
    if (idle_.empty()) return std::make_unique<HttpConnection>(client_);
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  void record(const AnswerRecorder& answer, const ResponseHead& head, const Failure& failure,
              const LoadPrompt& prompt) {
    auto end = answer.finish(head, failure);
    if (const auto* failed = std::get_if<RequestFailure>(&end)) {
      count(*failed);
    } else {
      auto& timing = std::get<RequestTiming>(end);
      if (timing.prompt_tokens == 0) timing.prompt_tokens = prompt.tokens;
      if (timing.output_tokens < 0)
        uncounted_.emplace_back(result_.completed.size(), answer.text());
      result_.completed.push_back(std::move(timing));
    }
    progress_.update(static_cast<int64_t>(ended_) + 1,
                     failed_ == 0 ? std::string() : fmt::format("{} failed", failed_));
  }

  void count(const RequestFailure& failure) {
    ErrorCount& error = result_.errors[failure.kind];
    if (error.count++ == 0) error.first_message = failure.message;
    ++failed_;
  }

  // The handler of signals sets a flag, which is all that it may do.
  asio::awaitable<void> watch() {
    constexpr auto kPeriod = std::chrono::milliseconds(50);
    asio::steady_timer timer(context_);
    while (!interrupted()) {
      timer.expires_after(kPeriod);
      co_await wait(timer);
    }
    result_.interrupted = true;
    context_.stop();
  }

  asio::io_context context_{1};  // before what belongs to it
  const LoadSettings& settings_;
  const std::span<const LoadPrompt> prompts_;
  Progress& progress_;
  HttpClient client_;
  asio::steady_timer slot_free_;
  std::vector<std::unique_ptr<HttpConnection>> idle_;
  std::vector<std::pair<size_t, std::string>> uncounted_;  // index in completed, text
  LoadMeasurement result_;
  LoadClock::time_point start_, last_end_;
  int64_t running_ = 0, failed_ = 0;
  size_t ended_ = 0;
};

class TextSink : public ResponseSink {
 public:
  bool body(const ResponseHead&, std::string_view bytes) override {
    constexpr size_t kMostBytes = size_t{1} << 20;
    text += bytes;
    return text.size() < kMostBytes;
  }

  std::string text;
};

asio::awaitable<void> get(HttpClient& client, std::string_view path, Result<std::string>& body) {
  constexpr auto kPatience = std::chrono::seconds(30);
  ResponseHead head;
  TextSink sink;
  HttpConnection connection(client);
  Failure failure = co_await client.resolve();
  if (!failure) {
    failure =
        co_await connection.exchange({"GET", path, {}}, LoadClock::now() + kPatience, head, sink);
  }
  if (failure)
    body = fail("{}: {}", failure->kind, failure->message);
  else if (head.status != 200)
    body = fail("GET {}: status {}: {}", path, head.status, error_message(sink.text));
  else
    body = std::move(sink.text);
}

}  // namespace

Result<std::string> ask_model_name(const LoadSettings& settings) {
  asio::io_context context(1);
  HttpClient client(context, settings.url, settings.api_key);
  Result<std::string> body = std::string();
  asio::co_spawn(context, get(client, "/v1/models", body), rethrow);
  context.run();
  auto name = body.ok() ? first_model(*body) : body;
  if (!name.ok()) return fail("{}: {}", settings.url.text(), name.error().message);
  return name;
}

Result<LoadMeasurement> measure_load(const LoadSettings& settings,
                                     std::span<const LoadPrompt> prompts,
                                     const text::Tokenizer& tokenizer, Progress& progress) {
  const auto is_chat = [](const LoadPrompt& prompt) { return !prompt.messages.is_null(); };
  if (settings.request.endpoint != Endpoint::kChat && std::ranges::any_of(prompts, is_chat))
    return fail("prompts with messages are for the endpoint of chats");
  LoadRun run(settings, prompts, progress);
  progress.start("requests", std::ssize(prompts));
  auto measured = run.run(tokenizer);
  progress.finish();
  return measured;
}

}  // namespace neuronmm::load
