#pragma once
// The HTTP/1.1 server of `neuronmm serve`. One thread serves all sockets, other threads do work
// that takes longer than a moment (WorkPools), and the engine has its own thread. The endpoints and
// the limits are listed in docs/reference/serving_protocol.md. The orderly end is described in
// docs/guide/serve.md.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/http/generation_service.h"

namespace neuronmm::serve {

// Limits that protect the server from slow and greedy clients. All values are assumed.
struct ServerLimits {
  using Milliseconds = std::chrono::milliseconds;
  uint32_t header_bytes = 16 * 1024;
  uint64_t body_bytes = uint64_t{8} << 20;
  // Body of a request that needs only the tokenizer, whose JSON response is many times as large.
  uint64_t tokenizer_body_bytes = uint64_t{1} << 20;
  // Bytes of bodies that have arrived and of responses that wait to be sent, of all connections
  // together. One client may hold a quarter.
  uint64_t held_bytes = uint64_t{256} << 20;
  uint64_t brief_bytes =
      16 * 1024;               // a body of this size is accepted even if `held_bytes` are held
  int64_t connections = 8192;  // one client may have a quarter
  // Bytes of one answer that may wait for its client. If more wait, the connection ends.
  size_t unread_bytes = size_t{1} << 20;
  int send_buffer_bytes = 256 * 1024;  // the operating system's, for one connection
  Milliseconds idle{75'000};           // longest wait between two requests
  // Longest time from a connection's begin to its first byte, and from a request's first byte to
  // its head's end.
  Milliseconds header{10'000};
  // The body must come, and the response must be read, at this rate at least, in bytes per second.
  // A client may stall for the times below before it is too slow. Modems are faster.
  int64_t slowest_rate = 4096;
  Milliseconds body{20'000}, send{30'000};
  Milliseconds ping{30'000};   // silence of a stream before a ping is sent; 0: no pings
  Milliseconds linger{1'000};  // longest time for a client to read the last response
  Milliseconds tick{100};      // interval at which the other times are checked
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                        // 0: any free port
  std::vector<std::string> api_keys;      // empty: no key is needed
  std::vector<std::string> cors_origins;  // "https://example.org", or "*"
  // Names under which a server that asks for no key may be reached, besides those of loopback; "*"
  // is all.
  std::vector<std::string> allowed_hosts;
  std::vector<std::string> trusted_proxies;  // addresses or networks (client_identity.h)
  std::string tls_certificate, tls_key;      // PEM files; either both or none
  std::string access_log;                    // as AccessLog::open() takes it
  std::string version;
  ServerLimits limits;
};

// The server with its sockets and threads. All functions may be called from any thread.
class Server {
 public:
  // Starts to listen. Until serve() is called, endpoints that need the model answer 503; /health
  // answers 200. Errors name the address or the file.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  // Ends all connections and aborts what the engine still computes.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const;  // http://127.0.0.1:8000
  int port() const;

  // Lets requests use the model. May be called once.
  void serve(std::shared_ptr<GenerationService> service);
  // Refuses new work with 503 and closes idle connections. Running answers go on.
  void drain();
  // Opens the access log again, for log rotation (AccessLog::reopen()).
  void reopen_access_log();
  bool drained() const;  // whether all answers have been sent after drain()
  // Ends running answers with an error. Returns when all clients have been told, at the latest
  // after `linger`.
  void abort();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace neuronmm::serve
