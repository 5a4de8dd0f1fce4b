#pragma once
// The flags of the command `neuronmm serve`, which apps/model/serve.cc reads. add_serve_flags()
// declares them with their checks, so a wrong value is refused before the command runs.

#include <CLI/CLI.hpp>

#include "commands.h"
#include "serve/http/serve_settings.h"

namespace neuronmm::apps {

// The values of the flags. serve::ServeSettings has the defaults.
struct ServeFlags {
  serve::ServeSettings settings;
  std::string draft;
  DeviceOptions device;
};

// Adds the flags to `command`. `flags` receives their values and must outlive the command.
void add_serve_flags(CLI::App* command, ServeFlags& flags);

}  // namespace neuronmm::apps
