#pragma once
// Says which values an option accepts, and which of the given ones it refuses. CLI11 describes the
// checks of an option in a short form ("INT in [0 - 65535]", "{bf16,f16}"), from which the messages
// about wrong usage are made (usage_error.cc).

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// Returns what a value of the option must be, such as "a whole number from 0 to 65535", "bf16, f16
// or f32" or "a number above 0". Returns nothing for an option whose own check says what it
// expects, or that takes any text.
std::optional<std::string> expected_value(const CLI::Option& option);

// Returns the names that the option accepts, or nothing if they are not limited to a list.
std::vector<std::string> choices_of(const CLI::Option& option);

// Returns the first given value that the option's check refuses, or nothing if it accepts all.
std::optional<std::string> refused_value(CLI::Option& option);

}  // namespace neuronmm::apps
