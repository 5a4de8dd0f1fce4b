#pragma once
// The description of the program in the formats that are installed with it: a completion script for
// bash and a man page. The build writes both files with the hidden command `neuronmm describe`.
// Both functions read the commands and flags from CLI11, so the files say the same as
// `--help-all`.

#include <string>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// Returns a script for /usr/share/bash-completion/completions. It completes the command first, then
// the flags of that command, and file names elsewhere.
std::string bash_completion(const CLI::App& program);
// Returns a man page for section 1 in troff format.
std::string man_page(const CLI::App& program, const std::string& version);

}  // namespace neuronmm::apps
