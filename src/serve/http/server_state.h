#pragma once
// What all connections of a server share.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "serve/http/access_log.h"
#include "serve/http/api_keys.h"
#include "serve/http/generation_service.h"
#include "serve/http/http_text.h"
#include "serve/http/server.h"
#include "serve/http/work_pool.h"

namespace neuronmm::serve {

using Clock = std::chrono::steady_clock;

// As the server sees one; on the thread of the sockets.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void on_tick(Clock::time_point now) = 0;
  virtual void close_if_idle() = 0;
  virtual void close() = 0;
};

struct ServerState {
  ServerState(ServerOptions options_in, std::unique_ptr<AccessLog> log_in)
      : options(std::move(options_in)), keys(options.api_keys), log(std::move(log_in)) {}

  std::shared_ptr<GenerationService> service() const {
    const std::lock_guard lock(mutex);
    return loaded;
  }

  const ServerOptions options;
  const ApiKeys keys;
  const std::unique_ptr<AccessLog> log;
  std::atomic<bool> draining = false;
  std::atomic<int64_t> generating = 0;  // connections with an answer that is not sent
  uint64_t body_bytes = 0;  // of requests that are read or answered; of the thread of the sockets
  std::unordered_set<Connection*> connections;  // of the thread of the sockets
  mutable std::mutex mutex;
  std::shared_ptr<GenerationService> loaded;  // under the lock
};

// Room for one body among those of all requests, given back at its end.
class BodyReservation {
 public:
  BodyReservation(ServerState& state, uint64_t bytes) : state_(state), bytes_(bytes) {
    state_.body_bytes += bytes_;
  }
  ~BodyReservation() { state_.body_bytes -= bytes_; }
  BodyReservation(const BodyReservation&) = delete;
  BodyReservation& operator=(const BodyReservation&) = delete;

 private:
  ServerState& state_;
  const uint64_t bytes_;
};

// Of the endpoints that need no thought: all GETs.
HttpReply immediate_reply(const ServerState& state, Endpoint endpoint, std::string_view path);

// What the model is asked for at this endpoint; nothing where it is not asked.
std::optional<GenerationApi> generation_api(Endpoint endpoint);
// Of the endpoints whose answers only need the tokenizer.
TokenizerTask tokenizer_task(Endpoint endpoint);
// Why no work is taken now, if none is.
std::optional<ApiError> refusal_now(const ServerState& state);

}  // namespace neuronmm::serve
