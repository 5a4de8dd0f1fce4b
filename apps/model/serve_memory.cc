#include "model/serve_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/memory_limit.h"
#include "byte_size.h"
#include "memory_reserve.h"
#include "ops/kv_cache.h"

namespace neuronmm::apps {
namespace {

// The share of a container's limit that the server takes. Assumed: the rest is enough for sockets,
// page tables and other memory that the kernel counts for the container.
constexpr double kContainerShare = 0.9;
// Memory for bodies, grammars and answers: this share of the limit, and at least so many bytes.
// Assumed: a body of 8 MiB takes up to 64 MiB while it is parsed.
constexpr int64_t kRequestShare = 10, kLeastRequestBytes = int64_t{64} << 20;

// The memory that a server needs besides keys and values.
struct Needs {
  int64_t model, buffers, requests;
  int64_t sum() const { return model + buffers + requests; }
};

Needs needs_of(const ServerMemory& memory, const model::Transformer& transformer,
               const serve::EngineOptions& engine) {
  return {.model = memory_use().anonymous,
          .buffers = serve::step_memory_bytes(transformer, engine) + memory_reserve_bytes(),
          .requests = std::max(kLeastRequestBytes, memory.limit_bytes / kRequestShare)};
}

// Returns the memory of keys and values that an engine with these options may take.
int64_t kv_cache_bytes(const model::Transformer& transformer, const serve::EngineOptions& engine) {
  const int64_t tokens = serve::sequence_capacity(transformer, engine).kv_cache;
  return tokens / ops::kKvBlock * serve::kv_block_bytes(transformer, engine);
}

}  // namespace

ServerMemory server_memory(int64_t given_bytes, int processes_of_host) {
  if (given_bytes > 0) return {given_bytes, "--memory"};
  const auto container = container_memory_limit();
  if (!container) return {};
  const double share = kContainerShare / processes_of_host;
  return {static_cast<int64_t>(static_cast<double>(container->bytes) * share),
          fmt::format("{} % of {} in {}", static_cast<int>(share * 100),
                      byte_size_text(container->bytes), container->file)};
}

void enforce(const ServerMemory& memory, int threads) {
  // The engine has a thread of its own.
  if (memory.limit_bytes > 0)
    limit_anonymous_memory(memory.limit_bytes - memory_reserve_bytes(), threads + 1);
}

Status divide(const ServerMemory& memory, const model::Transformer& transformer,
              serve::EngineOptions& engine) {
  if (memory.limit_bytes == 0) return {};
  const Needs needs = needs_of(memory, transformer, engine);
  const int64_t left = memory.limit_bytes - needs.sum();
  const int64_t block = serve::kv_block_bytes(transformer, engine);
  if (left < block)
    return fail(
        "--memory: expected at least {}, found {} ({}): the model has {}, buffers {}, requests {}, "
        "and {} tokens {}; a smaller --max-num-seqs or --prefill-chunk needs fewer buffers",
        byte_size_text(needs.sum() + block, SizeRounding::kUp), byte_size_text(memory.limit_bytes),
        memory.origin, byte_size_text(needs.model), byte_size_text(needs.buffers),
        byte_size_text(needs.requests), ops::kKvBlock, byte_size_text(block));
  if (engine.kv_cache_bytes > left)
    return fail(
        "--kv-cache-memory: expected at most {}, found {}: {} ({}) are the limit of all memory, of "
        "which the model has {}, buffers {} and requests {}",
        byte_size_text(left, SizeRounding::kDown), byte_size_text(engine.kv_cache_bytes),
        byte_size_text(memory.limit_bytes), memory.origin, byte_size_text(needs.model),
        byte_size_text(needs.buffers), byte_size_text(needs.requests));
  engine.kv_cache_bytes = std::min(kv_cache_bytes(transformer, engine), left);
  engine.reserve_kv_cache = transformer.make_cache(1)->block_bytes() > 0;
  return {};
}

std::string memory_statement(const ServerMemory& memory, const model::Transformer& transformer,
                             const serve::EngineOptions& engine) {
  const Needs needs = needs_of(memory, transformer, engine);
  const std::string parts = fmt::format(
      "{} for the model, {} for keys and values, {} for buffers", byte_size_text(needs.model),
      byte_size_text(kv_cache_bytes(transformer, engine)), byte_size_text(needs.buffers));
  const std::string mapped = fmt::format("{} of mapped files, which the system can drop",
                                         byte_size_text(memory_use().mapped));
  if (memory.limit_bytes == 0)
    return fmt::format("memory: no limit is set; up to {}, and {}", parts, mapped);
  return fmt::format("memory: at most {} ({}); {}, {} for requests; besides {}",
                     byte_size_text(memory.limit_bytes), memory.origin, parts,
                     byte_size_text(needs.requests), mapped);
}

}  // namespace neuronmm::apps
