#pragma once
// State that all connections of a server share, and the answers that depend only on this state.
// server.cc owns the state and connection.h uses it. Some members belong to the thread of the
// sockets; the comments say which.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "serve/http/access_log.h"
#include "serve/http/api_keys.h"
#include "serve/http/client_identity.h"
#include "serve/http/connection_table.h"
#include "serve/http/cross_site.h"
#include "serve/http/generation_service.h"
#include "serve/http/http_text.h"
#include "serve/http/server.h"
#include "serve/http/work_pool.h"

namespace neuronmm::serve {

// Returns the limits of the table of connections. A client may hold a quarter of what the server
// may. The number of connections is at most what the limit of file descriptors leaves.
ConnectionLimits connection_limits(const ServerLimits& limits);

struct ServerState {
  ServerState(ServerOptions options_in, TrustedProxies proxies_in,
              std::unique_ptr<AccessLog> log_in)
      : options(std::move(options_in)),
        keys(options.api_keys),
        proxies(std::move(proxies_in)),
        log(std::move(log_in)),
        connections(connection_limits(options.limits)) {}

  std::shared_ptr<GenerationService> service() const {
    const std::lock_guard lock(mutex);
    return loaded;
  }

  const ServerOptions options;
  const ApiKeys keys;
  const TrustedProxies proxies;
  CrossSiteRules cross_site;  // set before the first connection is accepted
  const std::unique_ptr<AccessLog> log;
  std::atomic<bool> draining = false;
  std::atomic<int64_t> generating = 0;  // connections with an unfinished answer
  ConnectionTable connections;          // belongs to the thread of the sockets
  mutable std::mutex mutex;
  std::shared_ptr<GenerationService>
      loaded;  // protected by `mutex`; null until the model is loaded
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
