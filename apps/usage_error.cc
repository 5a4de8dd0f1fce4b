#include "usage_error.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "help.h"
#include "suggestion.h"

namespace neuronmm::apps {
namespace {

constexpr std::array kOptionsOfText = {"prompt", "system", "stop", "metrics-prefix"};

std::vector<std::string> long_flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Returns the option with exactly this name, or null.
const CLI::Option* option_named(const CLI::App& command, const std::string& name) {
  return name.size() > 1 && name[0] == '-' ? command.get_option_no_throw(name) : nullptr;
}

// Returns the names that the help shows of an option, and of its value.
std::string shown_names(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = option_named(command, name);
  return option == nullptr ? name : option_names(*option);
}

std::string value_is_missing(const CLI::Option& option, const std::string& name) {
  const std::string names = option_names(option);
  return fmt::format("{} needs a value, as in {}", name, names.substr(names.rfind(',') + 1));
}

// Returns whether the option's value is text for a model, or the beginning of names.
bool may_be_empty(const CLI::Option& option) {
  return option.get_name() == "TEXT" || std::ranges::any_of(kOptionsOfText, [&](const char* name) {
           return option.check_lname(name);
         });
}

}  // namespace

const CLI::App* find_command(const CLI::App& program, const std::string& name) {
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::string unknown_argument(const CLI::App& command, const std::string& argument) {
  const bool is_flag = argument.size() > 1 && argument.starts_with('-');
  const bool is_command = !is_flag && command.get_parent() == nullptr;
  const std::string name = is_flag ? argument.substr(0, argument.find('=')) : argument;
  const auto nearest = is_flag      ? nearest_name(name, long_flags_of(command))
                       : is_command ? nearest_name(name, command_names(command))
                                    : std::nullopt;
  const std::string what = is_flag      ? "unknown flag"
                           : is_command ? "unknown command"
                                        : "unexpected argument";
  if (nearest) return fmt::format("{} {:?}; did you mean {:?}?", what, name, *nearest);
  if (command.get_parent() == nullptr)
    return fmt::format("{} {:?}; `neuronmm help` lists the commands", what, name);
  return fmt::format("{} {:?}; `neuronmm help {}` lists what there is", what, name,
                     command.get_name());
}

std::optional<std::string> missing_value(const CLI::App& command,
                                         const std::vector<std::string>& arguments) {
  for (size_t i = 0; i + 1 < arguments.size() && arguments[i] != "--"; ++i) {
    const CLI::Option* const option = option_named(command, arguments[i]);
    if (option == nullptr || option->get_items_expected_min() == 0) continue;
    if (option_named(command, arguments[i + 1]) != nullptr)
      return fmt::format("{}, found the option {}", value_is_missing(*option, arguments[i]),
                         arguments[i + 1]);
    ++i;
  }
  return std::nullopt;
}

std::optional<std::string> empty_value(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string& variable = option->get_envname();
    const char* const of_variable = variable.empty() ? nullptr : std::getenv(variable.c_str());
    if (of_variable != nullptr && *of_variable == '\0') {
      return fmt::format(
          "{}: expected a value, found an empty one; unset the variable to leave {} out", variable,
          option->get_name());
    }
    if (!may_be_empty(*option) && std::ranges::count(option->results(), "") > 0)
      return option->get_name() + ": expected a value, found an empty one";
  }
  return std::nullopt;
}

std::string parse_error_message(const CLI::App& command, const std::string& name,
                                const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string first = text.substr(0, text.find_first_of(": "));
  const CLI::Option* const option = option_named(command, first);
  if (error.get_name() == "ArgumentMismatch" && option != nullptr && text.ends_with("missing"))
    return value_is_missing(*option, first);
  if (error.get_name() == "ArgumentMismatch" && option != nullptr &&
      text.find("At Most 1 ") != std::string::npos)
    return first + " takes one value and was given more than once";
  if (error.get_name() == "RequiredError" && command.get_parent() != nullptr)
    return fmt::format("{}{}; `{} --help` shows examples", shown_names(command, first),
                       text.substr(first.size()), name);
  return text;
}

}  // namespace neuronmm::apps
