#pragma once
// The settings of the command `neuronmm serve` with their defaults. Every default of the command
// is an initial value of this structure or of the structures in it. The command's flags write into
// the structure (apps/model/serve_flags.cc), and its help shows the initial values.

#include <cstdint>
#include <string>
#include <vector>

#include "serve/engine/engine.h"
#include "serve/http/server.h"

namespace neuronmm::serve {

struct ServeSettings {
  std::string model_dir;
  // The model's names in requests, of which answers have the first one; empty: the name of the
  // folder.
  std::vector<std::string> served_model_names;
  bool any_model_name = false;  // whether requests may use any other name, too
  ServerOptions server;
  std::string api_key_file;  // keys in addition to server.api_keys; empty: no file
  EngineOptions engine;
  // A limit for all memory that is not mapped from files, in bytes. 0: what a container allows.
  int64_t memory_bytes = 0;
  // Beginning of the names in GET /metrics. The default is vLLM's, so that its dashboards work.
  std::string metrics_prefix = "vllm:";
  // The last token is the only one that has seen the whole text. Models that were trained to make
  // embeddings from decoders (E5-Mistral, GTE-Qwen2, Qwen3-Embedding) use its hidden state.
  Pooling pooling = Pooling::kLast;
  bool allow_priority = false;       // whether requests may set their priority
  double shutdown_timeout_s = 45.0;  // time that running answers have after the first signal
};

}  // namespace neuronmm::serve
