#pragma once
// One HTTP connection, plain or TLS. Two coroutines serve it on the thread of the sockets. One
// (ClientSocket::read_all) reads all bytes that arrive, so that it notices at once when the client
// leaves. The other (run) parses requests and sends their responses, one after the other. Only
// server.cc includes this file, because Boost's headers take long to compile. A malformed request
// is refused with a status and ends the connection.

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>

#include <boost/asio.hpp>
#include <boost/beast/http.hpp>

#include "serve/http/client_socket.h"
#include "serve/http/partial_request.h"
#include "serve/http/pool_result.h"
#include "serve/http/received_body.h"
#include "serve/http/response_queue.h"
#include "serve/http/server_state.h"

namespace neuronmm::serve {

namespace http = boost::beast::http;

template <typename Stream>
class HttpConnection : public ClientSocket<Stream> {
  using Base = ClientSocket<Stream>;

 public:
  // `peer` is the address at the other end, and `owner` the client that it stands for. `owner` is
  // empty for a trusted proxy, whose requests come from many clients.
  HttpConnection(Stream stream, ServerState& state, WorkPools& pools, std::string peer,
                 std::string owner)
      : Base(std::move(stream), state),
        pools_(pools),
        peer_(std::move(peer)),
        owner_(std::move(owner)),
        client_(owner_) {
    state_.connections.add(*this, owner_);
  }

  void start() {
    asio::co_spawn(
        stream_.get_executor(), [this, self = this->shared_from_this()] { return run(); },
        asio::detached);
  }

 private:
  using Parser = http::request_parser<ReceivedBody>;
  using Base::clear_deadline;
  using Base::close;
  using Base::close_gracefully;
  using Base::consume;
  using Base::eof_;
  using Base::extend_deadline;
  using Base::gone_;
  using Base::handshake;
  using Base::input_;
  using Base::input_ended;
  using Base::limits;
  using Base::phase_;
  using Base::ping_at_;
  using Base::read_all;
  using Base::resume_reading;
  using Base::set_deadline;
  using Base::state_;
  using Base::stream_;
  using Base::timed_out_;
  using Base::wait;
  using Base::wake;
  using Base::write;
  using typename Base::Phase;

  Task<void> run() {
    bool failed = false;
    try {
      if (co_await handshake()) {
        asio::co_spawn(
            stream_.get_executor(), [this, self = this->shared_from_this()] { return read_all(); },
            asio::detached);
        do {
          const bool has_request = co_await read_request();
          if (has_request) co_await respond();
        } while (keep_alive_ && !gone_);
        co_await close_gracefully();
      }
    } catch (const std::exception&) {
      failed = true;
    }
    // Memory has run out. This connection ends, the others go on.
    if (failed && phase_ != Phase::kIdle && !response_begun_) co_await refuse_without_memory();
    close();
    resume_reading();  // so that it ends, too
  }

  // Answers a request that memory did not suffice for, with a text that needs no memory.
  Task<void> refuse_without_memory() {
    parser_.reset();  // gives back the body
    phase_ = Phase::kResponding;
    try {
      co_await write(out_of_memory_response(record_.path));
      co_await close_gracefully();
    } catch (const std::exception&) {  // not even for that
    }
  }

  // Reads the next request. Returns false if there is none to answer: the client has left, or the
  // request was refused here.
  Task<bool> read_request() {
    response_begun_ = false;
    parser_.emplace();
    parser_->header_limit(limits().header_bytes);
    body_limit_ = limits().body_bytes;
    parser_->body_limit(body_limit_);
    keep_alive_ = false;
    too_many_bytes_ = false;
    // A request without a complete head must not be answered by what the one before it said.
    is_head_request_ = false;
    origin_.clear();
    phase_ = Phase::kIdle;
    state_.connections.set_bytes(*this, 0);
    set_client(owner_);
    set_deadline(had_request_ ? limits().idle : limits().header);
    // While the server drains, a new connection may still send one request, for example GET /ready.
    while (!request_begins() && !input_ended() && !(state_.draining && had_request_))
      co_await wait();
    had_request_ = true;
    if (!request_begins() || gone_) co_return false;
    phase_ = Phase::kReading;
    arrived_ = Clock::now();
    record_ = {};
    record_.client = peer_;
    set_deadline(limits().header);
    if (!co_await parse(/*body=*/false)) {
      co_await refuse_unparsed();
      co_return false;
    }
    read_head();
    std::optional<HttpReply> refused = find_head_refusal();
    if (refused) {
      co_await refuse(std::move(*refused));
      co_return false;
    }
    if (parser_->get().count(http::field::expect) > 0 && accepts_chunks_ && !parser_->is_done()) {
      phase_ = Phase::kResponding;  // so that on_tick() closes the connection if nobody reads this
      co_await write("HTTP/1.1 100 Continue\r\n\r\n");
      phase_ = Phase::kReading;
    }
    set_deadline(limits().body);
    if (!co_await parse(/*body=*/true)) {
      co_await refuse_unparsed();
      co_return false;
    }
    clear_deadline();
    record_.bytes_in = std::ssize(parser_->get().body());
    keep_alive_ = parser_->get().keep_alive() && !state_.draining;
    phase_ = Phase::kResponding;
    co_return true;
  }

  // Returns whether a request has started to arrive, after removing empty lines before it. Such
  // lines are not part of the request (RFC 9112, 2.2); some clients send one after a body.
  bool request_begins() {
    size_t lines = 0;
    while (input_.compare(lines, 2, "\r\n") == 0) lines += 2;
    consume(lines);
    return !input_.empty() && input_ != "\r";
  }

  // Parses to the end of the head, or of the body if `body` is set. Returns false if the request is
  // malformed (parse_error_ or fault_ has the reason), if its time is over, or if the client has
  // left.
  Task<bool> parse(bool body) {
    parser_->eager(body);
    bool in_request_line = !body;
    size_t checked = 0;  // bytes of input_ that have no fault, whatever follows them
    for (;;) {
      if (body ? parser_->is_done() : parser_->is_header_done()) co_return true;
      const std::string_view unchecked = std::string_view(input_).substr(checked);
      if (!body) fault_ = find_fault_in_partial_head(unchecked, in_request_line);
      if (!fault_.empty()) co_return false;
      in_request_line = in_request_line && unchecked.find("\r\n") == std::string_view::npos;
      error_code error;
      const size_t taken = input_.empty() ? 0 : parser_->put(asio::buffer(input_), error);
      consume(taken);
      if (taken > 0) checked = 0;
      if (body && taken > 0) {
        extend_deadline(taken);
        too_many_bytes_ = !state_.connections.set_bytes(*this, parser_->get().body().size());
        if (too_many_bytes_) co_return false;
      }
      if (error && error != http::error::need_more) {
        parse_error_ = error;
        co_return false;
      }
      if (body ? parser_->is_done() : parser_->is_header_done()) co_return true;
      // The parser consumes the data of a body as it comes. What remains is an unfinished line
      // between two chunks, or of the trailers.
      if (body) fault_ = find_fault_in_partial_lines(std::string_view(input_).substr(checked));
      checked = count_checked(input_);
      const size_t before = input_.size();
      if (body && before > limits().header_bytes) fault_ = "the lines of a chunk are too long";
      if (!fault_.empty()) co_return false;
      while (input_.size() == before && !input_ended() && !timed_out_) co_await wait();
      if (input_.size() == before) co_return false;
    }
  }

  void read_head() {
    const auto& request = parser_->get();
    const std::string_view id(request["X-Request-Id"].data(), request["X-Request-Id"].size());
    record_.request_id = is_request_id(id) ? std::string(id) : random_request_id();
    record_.method = std::string(request.method_string());
    record_.path = normalized_path({request.target().data(), request.target().size()});
    origin_ = std::string(request[http::field::origin]);
    is_head_request_ = request.method() == http::verb::head;
    accepts_chunks_ = request.version() == 11;
    identify_client();
  }

  // Finds out whose request this is (client_identity.h).
  void identify_client() {
    const auto& request = parser_->get();
    std::string forwarded;
    for (const auto& field : request) {
      if (!boost::beast::iequals(field.name_string(), "X-Forwarded-For")) continue;
      if (!forwarded.empty()) forwarded += ',';
      forwarded += std::string_view(field.value().data(), field.value().size());
    }
    record_.client = state_.proxies.client_address(peer_, forwarded);
    const std::string key =
        state_.keys.owner(request[http::field::authorization], request["X-Api-Key"]);
    set_client(key.empty() ? client_of_address(record_.client) : key);
  }

  void set_client(const std::string& client) {
    client_ = client;
    state_.connections.set_client(*this, client);
  }

  std::string random_request_id() {
    static std::mt19937_64 random{
        std::random_device{}()};  // used only by the thread of the sockets
    return fmt::format("req-{:016x}", random());
  }

  HttpReply reply_of(const ApiError& error) const { return error_reply(error, record_.path); }

  // Returns the reply to a request that can be refused before its body is read; nothing if the
  // request is good so far.
  std::optional<HttpReply> find_head_refusal() {
    const auto& request = parser_->get();
    const auto host = request[http::field::host];
    const size_t hosts = request.count(http::field::host);
    if ((accepts_chunks_ && hosts != 1) || hosts > 1 || !is_host({host.data(), host.size()}))
      return reply_of(invalid_request("", "expected one header Host, with a name and a port"));
    if (const auto fault = find_cross_site_fault(state_.cross_site, source_of(request)))
      return reply_of(*fault);
    // A proxy that finds another end of this body than the server does would also find another next
    // request (request smuggling). Only the coding that all of them understand is accepted.
    const bool coded = request.count(http::field::transfer_encoding) > 0;
    const auto coding = request[http::field::transfer_encoding];
    if (coded && (!accepts_chunks_ || !boost::beast::iequals(coding, "chunked")))
      return reply_of(invalid_request("", "Transfer-Encoding: only chunked is known"));
    const auto encoding = request[http::field::content_encoding];
    if (!encoding.empty() && !boost::beast::iequals(encoding, "identity"))
      return reply_of({.status = 415, .message = "Content-Encoding: bodies are read as they are"});
    const auto expect = request[http::field::expect];
    if (!expect.empty() && !boost::beast::iequals(expect, "100-continue"))
      return reply_of({.status = 417, .message = "Expect: only 100-continue is known"});
    if (request.method() == http::verb::options) return std::nullopt;
    const auto route = find_route(record_.method, record_.path);
    const auto authorization = request[http::field::authorization], key = request["X-Api-Key"];
    if ((!route.ok() || !route->open) && !state_.keys.admit(authorization, key))
      return reply_of(invalid_api_key());
    if (route.ok()) return limit_body(route->endpoint);
    HttpReply reply = reply_of(route.error());
    if (route.error().status == 405)
      reply.headers.emplace_back("Allow", allowed_methods(record_.path));
    return reply;
  }

  RequestSource source_of(const Parser::value_type& request) const {
    const auto header = [&](http::field name) -> std::optional<std::string_view> {
      const size_t count = request.count(name);
      if (count == 0) return std::nullopt;
      return count == 1 ? std::string_view(request[name]) : std::string_view();
    };
    return {.target = request.target(),
            .host = header(http::field::host),
            .origin = header(http::field::origin),
            .content_type = request[http::field::content_type],
            .has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0};
  }

  // Sets the limit for the body, or returns the refusal of one that announces too much.
  std::optional<HttpReply> limit_body(Endpoint endpoint) {
    const bool answers_in_full = record_.method == "POST" && !generation_api(endpoint);
    if (!answers_in_full) return std::nullopt;
    body_limit_ = std::min(limits().body_bytes, limits().tokenizer_body_bytes);
    if (parser_->content_length().value_or(0) > body_limit_)
      return reply_of(body_too_large(static_cast<int64_t>(body_limit_)));
    parser_->body_limit(body_limit_);
    return std::nullopt;
  }

  // Sends a refusal. The body of the request is not read, so the connection ends unless there is no
  // body.
  Task<void> refuse(HttpReply reply) {
    phase_ = Phase::kResponding;
    const bool has_body =
        !parser_->is_done() || parser_->get().count(http::field::transfer_encoding);
    keep_alive_ = !has_body && parser_->get().keep_alive() && !state_.draining;
    // clang-tidy 14 takes the coroutine's own copy of its parameters for a use after the move.
    co_await send(std::move(reply));  // NOLINT(bugprone-use-after-move)
  }

  Task<void> refuse_unparsed() {
    if (gone_ || (!timed_out_ && !too_many_bytes_ && !parse_error_ && fault_.empty())) co_return;
    if (!parser_->is_header_done()) record_.request_id = random_request_id();
    const std::string why = fault_.empty() ? parse_error_.message() : std::string(fault_);
    ApiError error = invalid_request("", "The request is no HTTP/1.1: " + why);
    if (parse_error_ == http::error::body_limit)
      error = body_too_large(static_cast<int64_t>(body_limit_));
    if (parse_error_ == http::error::header_limit)
      error = {.status = 431,
               .message = fmt::format("The head of the request is larger than {} bytes.",
                                      limits().header_bytes)};
    if (too_many_bytes_)
      error = queue_full("The bodies of all requests together are too large.", 1);
    if (timed_out_)
      error = {.status = 408, .message = "The request did not come to its end in time."};
    phase_ = Phase::kResponding;
    HttpReply reply = reply_of(error);
    co_await send(std::move(reply));
  }

  Task<void> respond() {
    HttpReply reply;
    try {
      if (parser_->get().method() == http::verb::options) {
        reply = {.status = 204,
                 .headers = preflight_headers(state_.options.cors_origins, origin_, record_.path)};
        reply.headers.emplace_back("Allow", allowed_methods(record_.path));
      } else {
        const Endpoint endpoint = find_route(record_.method, record_.path)->endpoint;
        if (const auto api = generation_api(endpoint)) {
          co_await respond_from_model(*api);
          co_return;
        }
        if (record_.method == "POST") {
          auto made = co_await respond_from_pool(endpoint);
          if (!made) {
            log(0, 0, false);
            co_return;
          }
          reply = *std::move(made);
        } else {
          reply = immediate_reply(state_, endpoint, record_.path);
        }
      }
    } catch (const std::exception& error) {
      if (response_begun_) throw;
      reply = reply_of(error_of(error));
    }
    co_await send(std::move(reply));
  }

  // Calls work() on a thread of a pool and returns its value, or nothing if the client leaves
  // first. With `until_eof`, a client that only stops sending counts as one that has left. An
  // exception of work() is thrown here.
  template <typename Work>
  Task<std::optional<std::invoke_result_t<Work>>> run_in_pool(WorkPool& pool, size_t body_bytes,
                                                              Work work, bool until_eof) {
    using Value = std::invoke_result_t<Work>;
    auto result = std::make_shared<PoolResult<Value>>();
    pool.post(client_, body_bytes,
              [result, work = std::move(work), executor = stream_.get_executor(), this,
               weak = this->weak_from_this()]() mutable {
                if (weak.expired()) return;  // the client has left while the work waited
                try {
                  result->value.emplace(work());
                } catch (...) {
                  result->thrown = std::current_exception();
                }
                result->is_done = true;
                post_or_leave_to_tick(executor, [this, weak] {
                  if (const auto self = weak.lock()) wake();
                });
              });
    while (!result->is_done && !gone_ && !(until_eof && eof_)) co_await wait();
    std::optional<Value> value;
    if (result->is_done && result->thrown) std::rethrow_exception(result->thrown);
    if (result->is_done) value = std::move(result->value);
    co_return value;
  }

  // Returns nothing if the client has left before there is a reply.
  Task<std::optional<HttpReply>> respond_from_pool(Endpoint endpoint) {
    HttpReply reply;
    if (const auto refusal = refusal_now(state_)) {
      reply = reply_of(*refusal);
      co_return reply;
    }
    const size_t body_bytes = parser_->get().body().size();
    auto work = [service = state_.service(), task = tokenizer_task(endpoint),
                 body = std::move(parser_->get().body())] {
      return service->run_tokenizer_task(task, body);
    };
    auto answer =
        co_await run_in_pool(pools_.requests, body_bytes, std::move(work), /*until_eof=*/false);
    if (!answer) co_return std::nullopt;
    if (answer->ok()) {
      reply.body = std::move((*answer)->body);
      record_.unknown_fields = (*answer)->unknown_fields;
      add_unknown_fields(reply.headers, record_.unknown_fields);
    } else {
      reply = reply_of(answer->error());
    }
    co_return reply;
  }

  Task<void> respond_from_model(GenerationApi api) {
    if (const auto refusal = refusal_now(state_)) {
      HttpReply reply = reply_of(*refusal);
      co_await send(std::move(reply));
      co_return;
    }
    const CountedGeneration counted(state_.generating);
    const auto generation = std::make_shared<RunningGeneration>(state_.service(), client_);
    const auto queue = make_queue();
    const size_t body_bytes = parser_->get().body().size();
    auto work = [generation, queue, api, body = std::move(parser_->get().body())] {
      return generation->begin(api, body, queue);
    };
    auto started = co_await run_in_pool(pools_.requests, body_bytes, std::move(work),
                                        /*until_eof=*/true);
    if (started && started->ok() && (*started)->unfinished) {
      // g++ 12 destroys a lambda twice that is made within a co_await expression.
      auto finish = [generation] { return generation->finish(); };
      started = co_await run_in_pool(pools_.large_formats, /*body_bytes=*/0, std::move(finish),
                                     /*until_eof=*/true);
    }
    if (!started) {
      generation->abandon();
      keep_alive_ = false;
      log(0, 0, false);
    } else if (!started->ok()) {
      HttpReply reply = reply_of(started->error());
      co_await send(std::move(reply));
    } else {
      record_.unknown_fields = (*started)->unknown_fields;
      record_.schema_notes = (*started)->schema_notes;
      bool complete = false;
      try {
        complete = co_await forward(*queue, **started);
      } catch (const std::exception&) {
        generation->abandon();
        throw;
      }
      if (!complete) {
        generation->abandon();
        close();
      }
    }
    queue_.reset();
  }

  std::shared_ptr<ResponseQueue> make_queue() {
    auto on_put = [this, executor = stream_.get_executor(), weak = this->weak_from_this()] {
      post_or_leave_to_tick(executor, [this, weak] {
        if (const auto self = weak.lock()) on_output();
      });
    };
    queue_ = std::make_shared<ResponseQueue>(limits().unread_bytes, std::move(on_put));
    return queue_;
  }
  void on_output() {
    if (queue_ && queue_->overflowed()) {
      close();
    } else {
      wake();
    }
  }

  // Sends the client what the engine puts into the queue, until the answer ends. Returns false if
  // the client has left or reads too slowly.
  Task<bool> forward(ResponseQueue& queue, const StartedGeneration& started) {
    std::string text;
    size_t sent = 0;
    bool head_sent = false;
    for (;;) {
      const bool pings = started.stream && limits().ping.count() > 0 && !started.ping.empty();
      ping_at_ = pings ? Clock::now() + limits().ping : Clock::time_point::max();
      ResponseQueue::Content content = queue.take();
      while (content.events.empty() && !content.response && !content.ended && !input_ended() &&
             !content.overflowed && Clock::now() < ping_at_) {
        co_await wait();
        content = queue.take();
      }
      if (input_ended() || content.overflowed) break;
      if (content.response) {
        HttpReply reply;
        reply.status = content.response->status;
        reply.body = std::move(content.response->body);
        add_answer_headers(reply.headers, started);
        ping_at_ = Clock::time_point::max();
        co_await send(std::move(reply));
        co_return !gone_;
      }
      if (content.events.empty() && !content.ended) content.events = started.ping;
      text.clear();
      if (!std::exchange(head_sent, true)) text = event_head(started);
      if (!content.events.empty()) text += accepts_chunks_ ? chunk(content.events) : content.events;
      if (content.ended && accepts_chunks_) text += kLastChunk;
      sent += content.events.size();
      response_begun_ = true;
      if (!co_await write(text)) break;
      if (content.ended) {
        ping_at_ = Clock::time_point::max();
        keep_alive_ = keep_alive_ && accepts_chunks_;
        log(200, sent, true);
        co_return true;
      }
    }
    ping_at_ = Clock::time_point::max();
    log(head_sent ? 200 : 0, sent, false);
    co_return false;
  }

  std::string event_head(const StartedGeneration& started) {
    Headers headers = {{"Content-Type", std::string(started.content_type)},
                       {"Cache-Control", "no-cache"},
                       {"X-Accel-Buffering", "no"}};
    add_answer_headers(headers, started);
    add_common_headers(headers);
    return response_head(200, headers, accepts_chunks_ ? Framing::kChunked : Framing::kClose, 0,
                         keep_alive_ && accepts_chunks_);
  }

  static void add_unknown_fields(Headers& headers, const std::vector<std::string>& names) {
    if (!names.empty()) headers.emplace_back("X-Unknown-Fields", header_text(names));
  }

  // Adds the headers that belong to this answer. The head of a stream is sent with its first token,
  // when the predicted total time is not known yet.
  void add_answer_headers(Headers& headers, const StartedGeneration& started) {
    add_unknown_fields(headers, started.unknown_fields);
    if (!started.schema_notes.empty())
      headers.emplace_back("X-Schema-Notes", header_text(started.schema_notes));
    if (!started.predicted) return;
    headers.emplace_back("X-Predicted-Device", state_.service()->device());
    const double first = started.predicted->first_token, total = started.predicted->total;
    if (first >= 0.0)
      headers.emplace_back("X-Predicted-First-Token-Seconds", fmt::format("{:.6f}", first));
    if (total >= 0.0 && !started.stream)
      headers.emplace_back("X-Predicted-Total-Seconds", fmt::format("{:.6f}", total));
  }

  void add_common_headers(Headers& headers) {
    headers.emplace_back("X-Request-Id", record_.request_id);
    for (auto& header : cors_headers(state_.options.cors_origins, origin_))
      headers.push_back(std::move(header));
  }

  Task<void> send(HttpReply reply) {
    Headers headers;
    if (reply.status != 204) headers.emplace_back("Content-Type", reply.content_type);
    headers.insert(headers.end(), reply.headers.begin(), reply.headers.end());
    add_common_headers(headers);
    std::string text =
        response_head(reply.status, headers, Framing::kLength, reply.body.size(), keep_alive_);
    if (!is_head_request_) text += reply.body;
    response_begun_ = true;
    // The response is counted and never refused, because its request was already served.
    (void)state_.connections.set_bytes(*this, text.size());
    const bool complete = co_await write(text);
    log(reply.status, is_head_request_ ? 0 : reply.body.size(), complete);
  }

  void log(int status, size_t bytes_out, bool complete) {
    record_.status = status;
    record_.bytes_out = static_cast<int64_t>(bytes_out);
    record_.complete = complete;
    record_.seconds = std::chrono::duration<double>(Clock::now() - arrived_).count();
    try {
      state_.log->write(record_);
      if (const auto service = state_.service()) service->metrics().count_http_response(status);
    } catch (const std::bad_alloc&) {  // the response is sent, and only its record is lost
    }
  }

  class CountedGeneration {
   public:
    explicit CountedGeneration(std::atomic<int64_t>& count) : count_(count) { ++count_; }
    ~CountedGeneration() { --count_; }
    CountedGeneration(const CountedGeneration&) = delete;
    CountedGeneration& operator=(const CountedGeneration&) = delete;

   private:
    std::atomic<int64_t>& count_;
  };

  WorkPools& pools_;
  std::optional<Parser> parser_;
  error_code parse_error_;
  std::string_view fault_;       // a fault that parser_ does not report
  bool response_begun_ = false;  // whether a byte of the response may have been sent
  bool had_request_ = false, keep_alive_ = false, is_head_request_ = false, accepts_chunks_ = true;
  const std::string peer_, owner_;
  std::string client_;  // whose request is served; owner_ between requests
  uint64_t body_limit_ = 0;
  bool too_many_bytes_ = false;  // the body was not read because of the limit for all clients
  std::string origin_;
  Clock::time_point arrived_;
  AccessRecord record_;
  std::shared_ptr<ResponseQueue> queue_;
};

}  // namespace neuronmm::serve
