#pragma once
// The program's own description in the forms that a system installs. Both walk the tree of commands
// and flags, so that they say what `--help` says.

#include <string>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// A script for /usr/share/bash-completion/completions: commands, then the flags of the command,
// then file names.
std::string bash_completion(const CLI::App& program);
// A page for man, section 1.
std::string man_page(const CLI::App& program, const std::string& version);

}  // namespace neuronmm::apps
