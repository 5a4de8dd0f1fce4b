#pragma once
// Keeps `neuronmm serve` below a limit of memory: --memory, or what a container allows. The limit
// is enforced by the system, so an allocation beyond it fails and only its request ends. serve.cc
// calls the functions in the order of their declarations.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/transformer.h"
#include "serve/engine/engine.h"

namespace neuronmm::apps {

// A limit for the memory that only this process can hold. Mapped files do not count, because the
// system can drop their pages at any time.
struct ServerMemory {
  int64_t limit_bytes = 0;  // 0: no limit
  std::string origin;       // where the limit comes from, for messages
};

// Returns the limit that --memory gives, or with 0 the one that the container of this process
// implies. Processes of this run on the same machine share the container.
ServerMemory server_memory(int64_t given_bytes, int processes_of_host);

// Makes allocations beyond the limit fail. `threads` is the number of threads that compute.
void enforce(const ServerMemory& memory, int threads);

// Divides the limit after the model was loaded, by setting the memory of keys and values in
// `engine` and asking the engine to reserve it. Without a limit, nothing changes. Error: the limit
// or --kv-cache-memory does not fit; the message lists what needs how much.
Status divide(const ServerMemory& memory, const model::Transformer& transformer,
              serve::EngineOptions& engine);

// Returns a line that states the limit and what takes how much of it.
std::string memory_statement(const ServerMemory& memory, const model::Transformer& transformer,
                             const serve::EngineOptions& engine);

}  // namespace neuronmm::apps
