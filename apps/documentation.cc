#include "documentation.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "expected_value.h"
#include "help.h"

namespace neuronmm::apps {
namespace {

// Returns the commands that --help shows. A command or an option without a group is hidden.
std::vector<const CLI::App*> visible_commands(const CLI::App& program) {
  return program.get_subcommands(
      [](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<const CLI::Option*> visible_options(const CLI::App& command) {
  return command.get_options(
      [](const CLI::Option* option) { return !option->get_group().empty(); });
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : visible_options(command)) {
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

// Escapes text so that troff prints it unchanged.
std::string escape_troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    if (c == '\n') out += "\\&";  // otherwise a dot or quote that begins a line is a request
  }
  return "\\&" + out;
}

std::string man_options(const CLI::App& command) {
  std::string page;
  for (const CLI::Option* option : visible_options(command)) {
    page += fmt::format(".TP\n.B {}\n{}\n", escape_troff(option_names(*option)),
                        escape_troff(option_text(*option)));
  }
  return page;
}

nlohmann::json option_json(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  const bool positional = option.get_positional();
  if (names.empty()) names.push_back(option.get_name());
  // An option that may be repeated expects many values, but only one of them follows it each time.
  const bool many = positional || option.get_allow_extra_args();
  const int most = many ? option.get_items_expected_max()
                        : std::min(option.get_type_size_max(), option.get_items_expected_max());
  nlohmann::json json = {{"names", names},
                         {"positional", positional},
                         {"required", option.get_required()},
                         {"description", option.get_description()},
                         {"values", {std::min(option.get_items_expected_min(), most), most}}};
  if (const auto choices = choices_of(option); !choices.empty()) json["choices"] = choices;
  return json;
}

nlohmann::json command_json(const CLI::App& command) {
  nlohmann::json options = nlohmann::json::array();
  for (const CLI::Option* option : visible_options(command)) {
    options.push_back(option_json(*option));
  }
  return {{"description", command.get_description()}, {"options", options}};
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  std::vector<std::string> command_names;
  std::string cases;
  for (const CLI::App* command : visible_commands(program)) {
    command_names.push_back(command->get_name());
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(),
                         fmt::join(flags_of(*command), " "));
  }
  const std::string commands = fmt::format("{}", fmt::join(command_names, " "));
  return fmt::format(
      R"(# bash completion for {0}
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=""
  case ${{COMP_WORDS[1]}} in
{1}    help) words="{3}" ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{2} {3} help version"
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ] || [[ $word == -* || ${{COMP_WORDS[1]}} == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
}}
complete -o default -F _{0} {0}
)",
      program.get_name(), cases, fmt::join(flags_of(program), " "), commands);
}

std::string man_page(const CLI::App& program, const std::string& version) {
  const std::string& name = program.get_name();
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"{} {}\"\n.SH NAME\n{} \\- low\\-rank compression and fast inference of "
      "large language models\n.SH SYNOPSIS\n.B {}\n.I COMMAND\n[ARGUMENT...]\n.SH DESCRIPTION\n{}\n"
      ".SH OPTIONS\n{}.SH COMMANDS\n",
      name, name, version, name, name, escape_troff(program.get_description() + "."),
      man_options(program));
  for (const CLI::App* command : visible_commands(program)) {
    page += fmt::format(".SS {}\n{}.\n{}", escape_troff(command->get_name()),
                        escape_troff(command->get_description()), man_options(*command));
  }
  page +=
      ".SH EXIT STATUS\n0: done. 1: an error, told on standard error. 2: wrong usage. 130: "
      "interrupted.\n";
  return page;
}

std::string program_json(const CLI::App& program) {
  nlohmann::json json = command_json(program);
  for (const CLI::App* command : visible_commands(program)) {
    json["commands"][command->get_name()] = command_json(*command);
  }
  return json.dump(2) + "\n";
}

}  // namespace neuronmm::apps
