#pragma once
// The description of the program in the formats that are installed with it, a completion script for
// bash and a man page, and as JSON for the tests of pages and help texts. The hidden command
// `neuronmm describe` prints them. All functions read the commands and flags from CLI11, so they
// say the same as `--help-all`.

#include <string>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// Returns a script for /usr/share/bash-completion/completions. It completes the command first, then
// the flags of that command, and file names elsewhere.
std::string bash_completion(const CLI::App& program);
// Returns a man page for section 1 in troff format.
std::string man_page(const CLI::App& program, const std::string& version);
// Returns a JSON object with "description", "options" and, by name, "commands", which have the same
// fields. An option has its "names" (a positional argument its only name), "positional",
// "required", "description", the least and the most "values" that follow its name, and its
// "choices" if only these values are accepted.
std::string program_json(const CLI::App& program);

}  // namespace neuronmm::apps
