#include "serve/load/connection.h"

#include <array>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fmt/format.h>

#include "serve/load/response_parser.h"

namespace neuronmm::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using Code = beast::error_code;
using Failure = std::optional<RequestFailure>;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

// The token of an asynchronous call that tells `code` what went wrong.
auto into(Code& code) { return asio::redirect_error(asio::use_awaitable, code); }

RequestFailure failure_of(const char* kind, const Code& code) {
  if (code == beast::error::timeout) return {"timeout", fmt::format("{}: no answer in time", kind)};
  return {kind, code.message()};
}

}  // namespace

struct HttpClient::State {
  asio::io_context& context;
  ServerUrl url;
  std::string head;  // of all requests: headers, each with its line end
  ssl::context tls{ssl::context::tls_client};
  tcp::resolver::results_type addresses;
};

HttpClient::HttpClient(asio::io_context& context, ServerUrl url, std::string api_key)
    : state_(new State{.context = context, .url = std::move(url), .head = {}, .addresses = {}}) {
  state_->head = fmt::format(
      "Host: {}\r\nUser-Agent: neuronmm-bench\r\nAccept: text/event-stream, application/json\r\n",
      state_->url.authority());
  if (!api_key.empty()) state_->head += fmt::format("Authorization: Bearer {}\r\n", api_key);
  if (!state_->url.tls) return;
  Code ignored;  // without certificates to trust, connecting says so
  state_->tls.set_default_verify_paths(ignored);
  state_->tls.set_verify_mode(ssl::verify_peer);
}

HttpClient::~HttpClient() = default;

asio::awaitable<Failure> HttpClient::resolve() {
  Code code;
  tcp::resolver resolver(state_->context);
  state_->addresses =
      co_await resolver.async_resolve(state_->url.host, state_->url.port, into(code));
  if (code)
    co_return RequestFailure{"connect", fmt::format("cannot find the host: {}", code.message())};
  co_return std::nullopt;
}

struct HttpConnection::State {
  HttpClient::State& client;
  // A connection is one of these.
  std::unique_ptr<beast::tcp_stream> plain = {};
  std::unique_ptr<TlsStream> tls = {};
  std::string unread = {};  // bytes behind what was parsed
  bool keep_alive = false;
  std::array<char, 16384> buffer = {};

  bool connected() const { return plain || tls; }
  beast::tcp_stream& stream() { return tls ? tls->next_layer() : *plain; }
  void close() {
    plain.reset();
    tls.reset();
    keep_alive = false;
  }

  asio::awaitable<Failure> connect(LoadClock::time_point deadline) {
    close();
    unread.clear();
    if (client.url.tls)
      tls = std::make_unique<TlsStream>(client.context, client.tls);
    else
      plain = std::make_unique<beast::tcp_stream>(client.context);
    Code code;
    stream().expires_at(deadline);
    co_await stream().async_connect(client.addresses, into(code));
    if (code) co_return failure_of("connect", code);
    stream().socket().set_option(tcp::no_delay(true), code);
    if (!tls) co_return std::nullopt;
    const std::string& host = client.url.host;
    SSL_set_tlsext_host_name(tls->native_handle(), host.c_str());
    tls->set_verify_callback(ssl::host_name_verification(host), code);
    co_await tls->async_handshake(ssl::stream_base::client, into(code));
    if (code) co_return failure_of("tls", code);
    co_return std::nullopt;
  }

  asio::awaitable<void> write(std::string_view text, Code& code) {
    const auto bytes = asio::buffer(text.data(), text.size());
    if (tls)
      co_await asio::async_write(*tls, bytes, into(code));
    else
      co_await asio::async_write(*plain, bytes, into(code));
  }

  asio::awaitable<void> read(Code& code) {
    const auto into_buffer = asio::buffer(buffer);
    size_t count = 0;  // g++ 12 compiles a co_await inside of ?: wrongly
    if (tls)
      count = co_await tls->async_read_some(into_buffer, into(code));
    else
      count = co_await plain->async_read_some(into_buffer, into(code));
    unread.append(buffer.data(), count);
    if (code == ssl::error::stream_truncated) code = asio::error::eof;
  }

  // Parses what there is; an error if it is no response.
  Code parse(ResponseParser& parser) {
    Code code;
    std::string_view rest = unread;
    while (!rest.empty() && !parser.is_done() && parser.wanted() && !code) {
      const size_t used = parser.put(asio::buffer(rest.data(), rest.size()), code);
      rest.remove_prefix(used);
    }
    unread.erase(0, unread.size() - rest.size());
    return code == beast::http::error::need_more ? Code() : code;
  }

  asio::awaitable<Failure> receive(LoadClock::time_point deadline, ResponseHead& head,
                                   ResponseSink& sink) {
    ResponseParser parser(head, sink);
    bool closing = false;
    while (true) {
      if (const Code code = parse(parser)) co_return failure_of("malformed response", code);
      if (parser.is_done() || !parser.wanted()) break;
      if (sink.satisfied() && !std::exchange(closing, true)) {
        constexpr auto kPatience = std::chrono::seconds(1);  // for the end of a response
        stream().expires_at(std::min(deadline, LoadClock::now() + kPatience));
      }
      Code code;
      co_await read(code);
      if (code == asio::error::eof && parser.got_some() && !parser.is_done()) {
        parser.put_eof(code);
        if (code) co_return RequestFailure{"disconnected", "the server closed before the end"};
        break;
      }
      if (code)
        co_return failure_of(code == beast::error::timeout ? "response" : "disconnected", code);
    }
    keep_alive = parser.is_done() && parser.keep_alive();
    co_return std::nullopt;
  }
};

HttpConnection::HttpConnection(const HttpClient& client) : state_(new State{*client.state_}) {}
HttpConnection::~HttpConnection() = default;
bool HttpConnection::reusable() const { return state_->keep_alive; }

asio::awaitable<Failure> HttpConnection::exchange(HttpRequest request,
                                                  LoadClock::time_point deadline,
                                                  ResponseHead& head, ResponseSink& sink) {
  State& state = *state_;
  std::string text = fmt::format("{} {}{} HTTP/1.1\r\n{}", request.method, state.client.url.path,
                                 request.path, state.client.head);
  if (!request.body.empty()) {
    text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n",
                        request.body.size());
  }
  text.append("\r\n").append(request.body);
  while (true) {
    const bool reused = state.keep_alive;
    if (!reused) {
      const Failure unconnected = co_await state.connect(deadline);
      if (unconnected) {
        state.close();
        co_return unconnected;
      }
    }
    state.keep_alive = false;
    state.stream().expires_at(deadline);
    head = {};
    Code code;
    co_await state.write(text, code);
    if (code == beast::error::timeout) {
      state.close();
      co_return failure_of("request", code);
    }
    // A server may refuse a body before it is sent, and close: its answer says more than the error.
    Failure failure = co_await state.receive(deadline, head, sink);
    if (failure && failure->kind == "disconnected" && reused && head.status == 0) continue;
    if (!state.keep_alive) state.close();
    co_return failure;
  }
}

}  // namespace neuronmm::load
