#pragma once
// The options of `neuronmm nki`, and what can be checked of them before the kernel runs.

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "kernel/nki_tracer.h"

namespace neuronmm::apps {

struct NkiFlags {
  TracerCall call;
  std::string from_trace, compare, measured, trace, json, html, save_trace, sweep, baseline;
  std::optional<double> expected_us;
  std::vector<std::string> what_ifs;
  size_t lines = 12;  // Source lines that the text lists.
  bool as_written = false;
};

// Adds the options to a command. `flags` must outlive it.
void add_nki_flags(CLI::App* command, NkiFlags& flags);

// Throws CLI::ValidationError if options contradict each other or have wrong values.
void check_nki_flags(const NkiFlags& flags);

}  // namespace neuronmm::apps
