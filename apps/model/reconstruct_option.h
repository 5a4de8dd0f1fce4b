#pragma once
// The option --reconstruct of `compress` and `quantize`.

#include <string>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// Adds the option. `value` gets its text, which compress::parse_reconstruct() reads, and stays
// empty if the option is not given.
void add_reconstruct_option(CLI::App* command, std::string& value);

}  // namespace neuronmm::apps
