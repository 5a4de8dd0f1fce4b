#include "serve/http/server.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "serve/http/connection.h"

namespace neuronmm::serve {
namespace {

// Wait after a failed accept(), for example because all file descriptors are in use. Assumed.
constexpr auto kAcceptPause = std::chrono::milliseconds(50);

// Accepts TLS 1.3, and of TLS 1.2 only what has forward secrecy and authenticated encryption. A
// connection that somebody recorded then stays secret even if the server's key is stolen later.
void require_forward_secrecy(SSL_CTX* context) {
  NMM_CHECK(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1);
  NMM_CHECK(SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
}

// Refuses empty values that would open the server to more clients than somebody meant.
Status check_options(const ServerOptions& options) {
  if (options.host.empty())
    return fail("expected the address or name to listen at, found an empty one");
  if (!std::ranges::all_of(options.api_keys, is_api_key))
    return fail("expected API keys of visible ASCII characters without spaces, found another one");
  if (options.tls_certificate.empty() != options.tls_key.empty())
    return fail("TLS needs a certificate and a key, found only one of the two");
  return {};
}

Result<std::optional<asio::ssl::context>> tls_context(const ServerOptions& options) {
  std::optional<asio::ssl::context> context;
  if (options.tls_certificate.empty() && options.tls_key.empty()) return context;
  context.emplace(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::default_workarounds);
  require_forward_secrecy(context->native_handle());
  // Without this function OpenSSL would ask for the passphrase at the terminal, if there is one.
  const auto encrypted =
      std::make_shared<bool>(false);  // shared, because the context keeps the function
  const auto on_password = [encrypted](size_t, asio::ssl::context::password_purpose) {
    *encrypted = true;
    return std::string();
  };
  error_code error;
  context->set_password_callback(on_password, error);
  context->use_certificate_chain_file(options.tls_certificate, error);
  if (error)
    return fail("{:?}: no certificate in PEM: {}", options.tls_certificate, error.message());
  context->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  if (*encrypted)
    return fail(
        "{:?}: expected a private key that is not encrypted, found one that is; \"openssl pkey -in "
        "KEY -out PLAIN\" asks for its passphrase and writes it without",
        options.tls_key);
  if (error)
    return fail("{:?}: no private key in PEM of the certificate {:?}: {}", options.tls_key,
                options.tls_certificate, error.message());
  return context;
}

Result<tcp::acceptor> listen_at(asio::io_context& io, const ServerOptions& options) {
  const auto refused = [&](const error_code& error) {
    return fail("{}:{}: cannot listen there: {}{}", options.host, options.port, error.message(),
                error == asio::error::address_in_use ? "; choose another --port" : "");
  };
  error_code error;
  const auto found = tcp::resolver(io).resolve(options.host, std::to_string(options.port),
                                               tcp::resolver::passive, error);
  if (error || found.empty()) return refused(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor acceptor(io);
  if (acceptor.open(endpoint.protocol(), error)) return refused(error);
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (acceptor.bind(endpoint, error)) return refused(error);
  if (acceptor.listen(asio::socket_base::max_listen_connections, error)) return refused(error);
  return acceptor;
}

}  // namespace

class Server::Impl {
 public:
  Impl(ServerOptions options, TrustedProxies proxies, std::unique_ptr<AccessLog> log,
       std::optional<asio::ssl::context> tls)
      : state_(std::move(options), std::move(proxies), std::move(log)), tls_(std::move(tls)) {}

  ~Impl() {
    if (const auto service = state_.service()) {
      service->stop_compiling();
      service->engine().abort();
    }
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status listen() {
    NMM_ASSIGN(acceptor_, listen_at(io_, state_.options));
    port_ = acceptor_->local_endpoint().port();
    state_.cross_site = cross_site_rules(
        state_.options, is_loopback(acceptor_->local_endpoint().address().to_string()));
    asio::co_spawn(io_, accept_all(), asio::detached);
    asio::co_spawn(io_, tick_all(), asio::detached);
    thread_ = std::thread([this] { run(); });
    return {};
  }

  std::string url() const {
    const std::string& host = state_.options.host;
    const bool v6 = host.find(':') != std::string::npos;
    return fmt::format("{}://{}:{}", tls_ ? "https" : "http", v6 ? fmt::format("[{}]", host) : host,
                       port_);
  }
  int port() const { return port_; }

  void serve(std::shared_ptr<GenerationService> service) {
    const std::lock_guard lock(state_.mutex);
    state_.loaded = std::move(service);
  }

  void drain() {
    state_.draining = true;
    if (const auto service = state_.service()) {
      service->engine().stop_admission();
      service->stop_compiling();
    }
    asio::post(io_, [this] {
      for (Connection* connection : state_.connections.connections()) connection->close_if_idle();
    });
  }

  void reopen_access_log() { state_.log->reopen(); }

  bool drained() const {
    const auto service = state_.service();
    return state_.draining && state_.generating == 0 && (!service || service->engine().idle());
  }

  void abort() {
    drain();
    if (const auto service = state_.service()) service->engine().abort();
    const auto end = Clock::now() + state_.options.limits.linger;
    while (state_.generating > 0 && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  // Runs the handlers. An exception ends the connection whose handler throws it, not the server.
  void run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception&) {
      }
    }
  }

  // Accepts connections until the server ends. Without memory for a connection, only that
  // connection is closed.
  asio::awaitable<void> accept_all() {
    asio::steady_timer pause(io_);
    for (bool failed = false;;) {
      try {
        if (std::exchange(failed, false)) {
          pause.expires_after(kAcceptPause);
          co_await pause.async_wait(kAwait);
        }
        auto [error, socket] = co_await acceptor_->async_accept(kAwait);
        if (error == asio::error::operation_aborted) co_return;
        if (error) {
          failed = !state_.connections.close_slowest();  // mostly no descriptors are left
        } else {
          start(std::move(socket));
        }
      } catch (const std::exception&) {
        if (failed) std::this_thread::sleep_for(kAcceptPause);  // there is none for a timer either
        failed = true;
      }
    }
  }

  void start(tcp::socket socket) {
    const ServerLimits& limits = state_.options.limits;
    error_code ignored;
    const auto peer = socket.remote_endpoint(ignored).address().to_string();
    const std::string owner = state_.proxies.contains(peer) ? "" : client_of_address(peer);
    if (!state_.connections.make_room(owner)) {
      refuse(socket);
      return;
    }
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::send_buffer_size(limits.send_buffer_bytes), ignored);
    if (tls_) {
      std::make_shared<HttpConnection<TlsStream>>(TlsStream(std::move(socket), *tls_), state_,
                                                  pools_, peer, owner)
          ->start();
    } else {
      std::make_shared<HttpConnection<PlainStream>>(std::move(socket), state_, pools_, peer, owner)
          ->start();
    }
  }

  // Answers 503 and closes the connection, without waiting: the buffer of a new connection has
  // enough space for this short answer.
  void refuse(tcp::socket& socket) {
    if (tls_) return;
    const HttpReply reply = error_reply(
        unavailable("too_many_connections", "The server has as many connections as it may have."));
    const std::string text = response_head(reply.status, {{"Content-Type", reply.content_type}},
                                           Framing::kLength, reply.body.size(), false) +
                             reply.body;
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);
  }

  asio::awaitable<void> tick_all() {
    asio::steady_timer timer(io_);
    for (;;) {
      try {
        timer.expires_after(state_.options.limits.tick);
        co_await timer.async_wait(kAwait);
        const auto now = Clock::now();
        for (Connection* connection : state_.connections.connections()) connection->on_tick(now);
      } catch (const std::exception&) {  // memory has run out; the next tick may have some
      }
    }
  }

  ServerState state_;
  std::optional<asio::ssl::context> tls_;
  asio::io_context io_{1};
  std::optional<tcp::acceptor> acceptor_;
  int port_ = 0;
  WorkPools pools_;  // destroyed before io_, because their work posts to io_
  std::thread thread_;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  NMM_TRY(check_options(options));
  out_of_memory_response("");  // makes the text while there is memory
  NMM_ASSIGN(auto log, AccessLog::open(options.access_log));
  NMM_ASSIGN(auto tls, tls_context(options));
  NMM_ASSIGN(auto proxies, TrustedProxies::parse(options.trusted_proxies));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(proxies), std::move(log),
                                     std::move(tls));
  NMM_TRY(impl->listen());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::string Server::url() const { return impl_->url(); }
int Server::port() const { return impl_->port(); }
void Server::serve(std::shared_ptr<GenerationService> service) { impl_->serve(std::move(service)); }
void Server::drain() { impl_->drain(); }
void Server::reopen_access_log() { impl_->reopen_access_log(); }
bool Server::drained() const { return impl_->drained(); }
void Server::abort() { impl_->abort(); }

}  // namespace neuronmm::serve
