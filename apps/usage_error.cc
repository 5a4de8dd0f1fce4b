#include "usage_error.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "expected_value.h"
#include "help.h"
#include "suggestion.h"

namespace neuronmm::apps {
namespace {

constexpr std::array kOptionsOfText = {"prompt", "system", "metrics-prefix"};

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

// Returns the options that a message of CLI11 names, in its order.
std::vector<CLI::Option*> options_in(CLI::App& command, const std::string& text) {
  std::vector<CLI::Option*> options;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.ends_with(':')) word.pop_back();
    CLI::Option* const option = command.get_option_no_throw(word);
    if (option != nullptr) options.push_back(option);
  }
  return options;
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

// Returns the message about a text that is neither an option nor the value of one.
std::string unexpected_argument(const CLI::App& command, const std::string& argument) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) names.push_back(option->get_name(true, false));
  }
  const bool takes_text = command.get_option_no_throw("--prompt") != nullptr ||
                          command.get_option_no_throw("TEXT") != nullptr;
  return fmt::format("unexpected argument {:?}: {}{}; `neuronmm help {}` lists what there is",
                     argument,
                     names.empty() ? "expected options only"
                                   : fmt::format("expected no more than {}", fmt::join(names, " ")),
                     takes_text ? " (text with spaces needs quotes)" : "", command.get_name());
}

std::string required_message(const CLI::App& command, const std::string& name,
                             const std::string& text) {
  const std::string first = text.substr(0, text.find(' '));
  const CLI::Option* const option = command.get_option_no_throw(first);
  return fmt::format("{}{}; `{} --help` shows examples",
                     option == nullptr ? first : option_names(*option), text.substr(first.size()),
                     name);
}

std::string mismatch_message(const CLI::Option& option, const std::string& text) {
  const std::string name = option.get_name();
  if (option.get_items_expected_max() == 0) return name + " takes no value and was given one";
  if (text.ends_with("missing")) return value_is_missing(option, name);
  if (text.find("At Most 1 ") == std::string::npos) return text;
  return name + " takes one value and was given more than once";
}

// Returns the message about a value that is not of the option's type or that its check refuses. A
// check of ours says itself what it expected, and so do the libraries.
std::string value_message(CLI::Option& option, bool converted, const std::string& text) {
  const std::string name = option.get_name();
  if (option.get_items_expected_max() == 0 && !converted)
    return name + " takes no value and was given one";
  if (converted && (!text.starts_with(name + ": ") || text.starts_with(name + ": expected ")))
    return text;
  const auto expected = expected_value(option);
  std::optional<std::string> found = refused_value(option);
  if (!found && !converted) found = fmt::format("{}", fmt::join(option.results(), " "));
  if (!expected || !found) return text;
  // One letter too much or too little makes another number, which nobody meant.
  const auto nearest = found->size() > 2 ? nearest_name(*found, choices_of(option)) : std::nullopt;
  return fmt::format("{}: expected {}, found {:?}{}", name, *expected, *found,
                     nearest ? fmt::format("; did you mean {:?}?", *nearest) : "");
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
  if (!is_flag && command.get_parent() != nullptr) return unexpected_argument(command, argument);
  const std::string name = is_flag ? argument.substr(0, argument.find('=')) : argument;
  const auto nearest =
      nearest_name(name, is_flag ? long_flags_of(command) : command_names(command));
  const char* const what = is_flag ? "unknown flag" : "unknown command";
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

std::string parse_error_message(CLI::App& command, const std::string& name,
                                const CLI::ParseError& error) {
  const std::string text = error.what(), kind = error.get_name();
  const std::vector<CLI::Option*> options = options_in(command, text);
  CLI::Option* const option = options.empty() ? nullptr : options.front();
  if (kind == "RequiredError" && command.get_parent() != nullptr)
    return required_message(command, name, text);
  if (option == nullptr) return text;
  if (kind == "ArgumentMismatch") return mismatch_message(*option, text);
  if (kind == "ConversionError") return value_message(*option, false, text);
  if (kind == "ValidationError") return value_message(*option, true, text);
  if (options.size() < 2) return text;
  const std::string first = option->get_name(), second = options[1]->get_name();
  if (kind == "ExcludesError")
    return fmt::format("{} and {} exclude each other; give one of them", first, second);
  if (kind == "RequiresError")
    return fmt::format("{} needs {} and was given without it", first, second);
  return text;
}

}  // namespace neuronmm::apps
