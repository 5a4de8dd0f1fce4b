#pragma once
// The flags of the command `neuronmm serve`, which apps/model/serve.cc reads. add_serve_flags()
// declares them with their checks, so a wrong value is refused before the command runs.

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "serve/engine/engine.h"
#include "serve/http/server.h"

namespace neuronmm::apps {

// The values of the flags, with their defaults.
struct ServeFlags {
  std::string model_dir, model_name;
  serve::ServerOptions server;
  serve::EngineOptions engine;
  std::string metrics_prefix = "vllm:";
  double shutdown_timeout_s = 45.0;
  int64_t ping_interval_s = 30;  // in seconds; below 1: no pings
  DeviceOptions device;
};

// Adds the flags to `command`. `flags` receives their values and must outlive the command.
void add_serve_flags(CLI::App* command, ServeFlags& flags);

}  // namespace neuronmm::apps
