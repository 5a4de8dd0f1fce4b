#pragma once
// The flags of `serve`.

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "serve/engine/engine.h"
#include "serve/http/server.h"

namespace neuronmm::apps {

struct ServeFlags {
  std::string model_dir, model_name;
  serve::ServerOptions server;
  serve::EngineOptions engine;
  std::string metrics_prefix = "vllm:";
  double shutdown_timeout_s = 45.0;
  int64_t ping_interval_s = 30;  // below 1: never
  DeviceOptions device;
};

void add_serve_flags(CLI::App* command, ServeFlags& flags);

}  // namespace neuronmm::apps
