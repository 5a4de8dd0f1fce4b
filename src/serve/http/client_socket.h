#pragma once
// The socket of one client, plain or TLS: reads all bytes that arrive, writes within a time limit,
// and closes. HttpConnection derives from it and adds HTTP. All functions run on the thread of the
// sockets. A connection ends when its client stops sending, takes nothing, or exceeds a deadline.

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>

#include "serve/http/server_state.h"

namespace neuronmm::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using PlainStream = tcp::socket;
using TlsStream = asio::ssl::stream<tcp::socket>;

inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

template <typename T>
using Task = asio::awaitable<T>;

template <typename Stream>
class ClientSocket : public Connection, public std::enable_shared_from_this<ClientSocket<Stream>> {
 public:
  ClientSocket(Stream stream, ServerState& state)
      : stream_(std::move(stream)),
        state_(state),
        wake_timer_(stream_.get_executor(), Clock::time_point::max()),
        input_space_timer_(stream_.get_executor(), Clock::time_point::max()) {}
  ~ClientSocket() override { state_.connections.remove(*this); }

  void on_tick(Clock::time_point now) override {
    // Other threads post a message to wake a connection that responds. If there is no memory for
    // the message, the connection looks by itself.
    if (now >= ping_at_ || phase_ == Phase::kResponding) wake();
    if (now < deadline_) return;
    deadline_ = Clock::time_point::max();
    timed_out_ = true;
    if (phase_ == Phase::kReading) {
      wake();  // run() can still send the client an error
    } else {
      close();
    }
  }
  void close_if_idle() override {
    if (phase_ == Phase::kIdle) close();
  }
  void close() override {
    gone_ = true;
    state_.connections.remove(*this);
    error_code ignored;
    socket().close(ignored);
    wake();
  }
  std::optional<double> used_time(Clock::time_point now) const override {
    if (gone_ || deadline_ == Clock::time_point::max()) return std::nullopt;
    const std::chrono::duration<double> left = deadline_ - now, all = time_;
    return 1.0 - left / all;
  }

 protected:
  // The bytes of input that may wait for the parser. Assumed: twice the largest head.
  static constexpr size_t kMostUnparsed = 32 * 1024;
  enum class Phase { kIdle, kReading, kResponding };

  const ServerLimits& limits() const { return state_.options.limits; }
  // Begins a time limit. An earlier one that passed when it no longer mattered is forgotten.
  void set_deadline(ServerLimits::Milliseconds time) {
    time_ = time;
    deadline_ = Clock::now() + time;
    timed_out_ = false;
  }
  // Extends the time limit by the time that the slowest client allowed would need for these bytes,
  // but never beyond the limit's full length from now. A client that pauses after a fast begin thus
  // has no more time than one that was slow all along. A limit that has passed stays so.
  void extend_deadline(size_t bytes) {
    if (deadline_ == Clock::time_point::max()) return;
    const auto more = std::chrono::milliseconds(static_cast<int64_t>(bytes) * 1000 /
                                                std::max<int64_t>(1, limits().slowest_rate));
    deadline_ = std::min(Clock::now() + time_, deadline_ + more);
  }
  void clear_deadline() { deadline_ = Clock::time_point::max(); }
  // Returns whether the client has stopped sending: no more requests can come, and perhaps nobody
  // reads the responses.
  bool input_ended() const { return gone_ || eof_; }

  void wake() {
    signalled_ = true;
    wake_timer_.cancel();
  }
  Task<void> wait() {
    if (!signalled_) co_await wake_timer_.async_wait(kAwait);
    signalled_ = false;
  }

  // Removes the first `count` bytes of the input, which the caller has parsed.
  void consume(size_t count) {
    input_.erase(0, count);
    if (input_.size() < kMostUnparsed) resume_reading();
  }
  void resume_reading() { input_space_timer_.cancel(); }

  // Returns the address of the client, or an empty string if it has left already.
  std::string client_address() {
    error_code error;
    const auto peer = socket().remote_endpoint(error);
    return error ? std::string() : peer.address().to_string();
  }

  Task<bool> handshake() {
    if constexpr (kTls) {
      set_deadline(limits().header);
      const auto [error] = co_await stream_.async_handshake(TlsStream::server, kAwait);
      clear_deadline();
      co_return !error;
    }
    co_return true;
  }

  // Reads until the client stops sending. If kMostUnparsed bytes wait for the parser, the following
  // ones stay in the operating system's buffer.
  Task<void> read_all() {
    try {
      co_await read_to_end();
    } catch (const std::exception&) {  // memory has run out
      close();
    }
  }

  Task<void> read_to_end() {
    std::array<char, 4096> piece;
    for (;;) {
      while (input_.size() >= kMostUnparsed && !gone_)
        co_await input_space_timer_.async_wait(kAwait);
      if (gone_) co_return;
      const auto [error, count] = co_await stream_.async_read_some(asio::buffer(piece), kAwait);
      if (error) {
        const bool ended = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
        if (!ended) gone_ = true;
        eof_ = true;
        wake();
        co_return;
      }
      if (closing_gracefully_) continue;
      input_.append(piece.data(), count);
      wake();
    }
  }

  // Writes `text` in pieces. The connection ends if the client reads too slowly (ServerLimits).
  // Returns whether all was written.
  Task<bool> write(std::string_view text) {
    set_deadline(limits().send);
    while (!text.empty() && !gone_) {
      const auto [error, count] = co_await stream_.async_write_some(
          asio::buffer(text.data(), std::min(text.size(), kMostPerWrite)), kAwait);
      if (error) {
        gone_ = true;
        break;
      }
      text.remove_prefix(count);
      extend_deadline(count);
    }
    clear_deadline();
    co_return text.empty();
  }

  // Ends the connection, after giving the client time to read the last response. If the socket were
  // closed at once while the client still sends, the client would lose that response.
  Task<void> close_gracefully() {
    phase_ = Phase::kResponding;
    closing_gracefully_ = true;
    consume(input_.size());
    if (gone_) co_return;
    set_deadline(limits().linger);
    if constexpr (kTls) co_await stream_.async_shutdown(kAwait);
    error_code ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    while (!input_ended()) co_await wait();
  }

  Stream stream_;
  ServerState& state_;
  std::string input_;  // bytes that are not parsed yet
  bool eof_ = false, gone_ = false, timed_out_ = false;
  Phase phase_ = Phase::kIdle;
  ServerLimits::Milliseconds time_{1};  // the length of the time limit that ends at deadline_
  Clock::time_point deadline_ = Clock::time_point::max(), ping_at_ = Clock::time_point::max();

 private:
  static constexpr bool kTls = std::is_same_v<Stream, TlsStream>;
  // The bytes of one write, after which the time limit is extended. Assumed.
  static constexpr size_t kMostPerWrite = 64 * 1024;

  tcp::socket& socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  // Timers that never expire: cancelling one wakes the coroutine that waits for it. wake_timer_
  // wakes the one that answers, input_space_timer_ the one that reads when input_ has space again.
  asio::steady_timer wake_timer_, input_space_timer_;
  bool signalled_ = false, closing_gracefully_ = false;
};

}  // namespace neuronmm::serve
