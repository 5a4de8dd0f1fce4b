#pragma once
// Messages about wrong usage: one sentence that names the argument, what was expected and, where
// that helps, what to type instead. program.cc prints them.

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// Returns the command with this name, or null.
const CLI::App* find_command(const CLI::App& program, const std::string& name);

// Returns the message about an `argument` that `command` does not accept, with the nearest name
// that it does accept.
std::string unknown_argument(const CLI::App& command, const std::string& argument);

// Returns a message if one of the `arguments` of `command` is an option that needs a value and has
// another option of the same command in place of one. CLI11 would take that option for the value.
// "--option=--other" gives such a value.
std::optional<std::string> missing_value(const CLI::App& command,
                                         const std::vector<std::string>& arguments);

// Returns a message if a value of `command` is empty, as after `--host "$HOST"` without such a
// variable, or if an environment variable is that a flag reads. Many values would then mean
// something that nobody asked for: every address, no key, the current folder. Text for a model may
// be empty.
std::optional<std::string> empty_value(const CLI::App& command);

// Returns the message about an error that CLI11 found in the arguments of `command`. It names the
// option, what was expected and what was found. `name` is the program and the command, for example
// "neuronmm fit".
std::string parse_error_message(CLI::App& command, const std::string& name,
                                const CLI::ParseError& error);

}  // namespace neuronmm::apps
