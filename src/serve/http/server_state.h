#pragma once
// State that all connections of a server share, and the answers that depend only on this state.
// server.cc owns the state and connection.h uses it. Some members belong to the thread of the
// sockets; the comments say which.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "serve/http/access_log.h"
#include "serve/http/api_keys.h"
#include "serve/http/cross_site.h"
#include "serve/http/generation_service.h"
#include "serve/http/http_text.h"
#include "serve/http/server.h"
#include "serve/http/work_pool.h"

namespace neuronmm::serve {

using Clock = std::chrono::steady_clock;

// A connection as the server sees it. All functions are called on the thread of the sockets.
class Connection {
 public:
  virtual ~Connection() = default;
  // Checks the connection's deadlines. The server calls this at every ServerLimits::tick.
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
  CrossSiteRules cross_site;  // set before the first connection is accepted
  const std::unique_ptr<AccessLog> log;
  std::atomic<bool> draining = false;
  std::atomic<int64_t> generating = 0;  // connections with an unfinished answer
  // Bytes of the bodies of all requests that are read or answered. Belongs to the thread of the
  // sockets.
  uint64_t body_bytes = 0;
  std::unordered_set<Connection*> connections;  // belongs to the thread of the sockets
  mutable std::mutex mutex;
  std::shared_ptr<GenerationService>
      loaded;  // protected by `mutex`; null until the model is loaded
};

// Counts a body towards the limit for all bodies, for as long as the object lives. Belongs to the
// thread of the sockets.
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

// Returns the reply of an endpoint that needs no computation: all GET endpoints. `path` names the
// model for Endpoint::kModelByName.
HttpReply immediate_reply(const ServerState& state, Endpoint endpoint, std::string_view path);

// Returns which API an endpoint generates text for; nothing for an endpoint that generates none.
std::optional<GenerationApi> generation_api(Endpoint endpoint);
// Returns the task of an endpoint that needs only the tokenizer.
TokenizerTask tokenizer_task(Endpoint endpoint);
// Returns the reason for refusing work at this moment (the server drains, or the model is not
// loaded yet); nothing if work is accepted.
std::optional<ApiError> refusal_now(const ServerState& state);

}  // namespace neuronmm::serve
