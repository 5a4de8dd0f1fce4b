#pragma once
// The HTTP/1.1 server: one thread for all sockets, two for what takes longer than a moment, and the
// engine's own. docs/serving.md says what it answers and what its limits mean.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/http/generation_service.h"

namespace neuronmm::serve {

struct ServerLimits {
  using Milliseconds = std::chrono::milliseconds;
  uint32_t header_bytes = 16 * 1024;
  uint64_t body_bytes = uint64_t{8} << 20;
  uint64_t all_body_bytes = uint64_t{256} << 20;  // of all requests at one time
  int64_t connections = 8192;
  // Of one answer that its client does not read; beyond it the client loses the answer.
  size_t unread_bytes = size_t{1} << 20;
  int send_buffer_bytes = 256 * 1024;  // the system's, of one connection
  Milliseconds idle{75'000};           // between two requests
  Milliseconds header{10'000};         // from a request's first byte to the end of its head
  Milliseconds body{60'000};           // from there to the end of its body
  Milliseconds send{30'000};           // in which a client takes nothing of a response
  Milliseconds ping{30'000};           // without an event, before a comment is sent; 0: none is
  Milliseconds linger{1'000};          // for a client to take the end of a last response
  Milliseconds tick{100};              // how exact all of these are
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                        // 0: any that is free
  std::vector<std::string> api_keys;      // none: everybody may ask
  std::vector<std::string> cors_origins;  // "https://example.org", or "*"
  std::string tls_certificate, tls_key;   // PEM files; both or none
  std::string access_log;                 // AccessLog::open
  std::string version;
  ServerLimits limits;
};

// All functions may be called from any thread.
class Server {
 public:
  // Listens, with /health and nothing else until there is a model. Errors name the address or the
  // file.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  // Ends all connections; what the engine still does is aborted.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const;  // http://127.0.0.1:8000
  int port() const;

  void serve(std::shared_ptr<GenerationService> service);  // once
  // New work is refused, idle connections are closed, running answers go on.
  void drain();
  bool drained() const;  // all answers have been sent, after drain()
  // What still runs ends with an error; returns when clients have been told, or after `linger`.
  void abort();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace neuronmm::serve
