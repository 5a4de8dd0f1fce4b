#include "help.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace neuronmm::apps {
namespace {

// The widest names that share a column with the texts of the other options. Texts of options with
// longer names begin further right.
constexpr size_t kMaxNameColumns = 26;

using Options = std::vector<const CLI::Option*>;

bool takes_no_value(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

bool takes_many(const CLI::Option& option) {
  return option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
}

// Returns what stands for the value of an option. CLI11 appends descriptions of the checks after a
// colon.
std::string value_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  if (name == "INT" || name == "UINT") return "N";
  return name == "FLOAT" ? "X" : name;
}

// Appends `text` to `line` word by word. Lines that are full continue at the column `indent`.
std::string wrapped(std::string line, const std::string& text, size_t indent) {
  std::string all;
  bool first = true;
  std::istringstream words(text);
  for (std::string word; words >> word; first = false) {
    const size_t space = first ? 0 : 1;
    if (!first && line.size() + space + word.size() > kHelpColumns) {
      all += line + "\n";
      line = std::string(indent, ' ') + word;
    } else {
      line += std::string(space, ' ') + word;
    }
  }
  return all + line + "\n";
}

// Returns a list of names and texts in two columns.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t widest = 0;
  for (const auto& [names, text] : rows) {
    if (names.size() <= kMaxNameColumns) widest = std::max(widest, names.size());
  }
  std::string out;
  for (const auto& [names, text] : rows) {
    out += wrapped(fmt::format("  {:{}}  ", names, widest), text, widest + 4);
  }
  return out;
}

Options options_in(const CLI::App& app, const std::string& group) {
  return app.get_options([&](const CLI::Option* option) {
    return option->get_group() == group && option != app.get_help_ptr() &&
           option != app.get_help_all_ptr();
  });
}

// Returns the positional arguments and the options that CLI11 requires.
std::string required_arguments(const CLI::App& app) {
  std::string line;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      const std::string text = option->get_name(true, false) + (takes_many(*option) ? "..." : "");
      line += option->get_required() ? " " + text : " [" + text + "]";
    } else if (option->get_required()) {
      const std::string flag = option->get_snames().empty() ? "--" + option->get_lnames().front()
                                                            : "-" + option->get_snames().front();
      line += " " + flag + " " + value_name(*option);
    }
  }
  return line;
}

// Returns the groups of options with a title above each. The rare options end the last group.
std::string groups_of(const CLI::App& app, bool all) {
  std::vector<std::pair<std::string, Options>> groups;
  std::vector<std::pair<std::string, std::string>> rows;
  for (const std::string title : {kInput, kOutput, kQuality, kSpeed, kAdvanced}) {
    Options options = options_in(app, title);
    if (title == kAdvanced && all) {
      std::ranges::copy(options_in(app, kRare), std::back_inserter(options));
    }
    if (!options.empty()) groups.emplace_back(title, std::move(options));
  }
  std::string out;
  for (const auto& [title, options] : groups) {
    rows.clear();
    for (const CLI::Option* option : options)
      rows.emplace_back(option_names(*option), option_text(*option));
    out += fmt::format("\n{}:\n{}", title, two_columns(rows));
  }
  return out;
}

std::string hint_of_rare_options(const CLI::App& app, const std::string& name) {
  const size_t count = options_in(app, kRare).size();
  if (count == 0) return {};
  return fmt::format("\n`{} --help-all` also shows {} rare option{}.\n", name, count,
                     count == 1 ? "" : "s");
}

// Returns the list of commands, with the title of each group above its commands.
std::string commands_of(const CLI::App& program) {
  std::string out, group;
  std::vector<std::pair<std::string, std::string>> rows;
  const auto flush = [&] {
    if (!rows.empty()) out += fmt::format("\n{}:\n{}", group, two_columns(rows));
    rows.clear();
  };
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    if (command->get_group() != group) flush();
    group = command->get_group();
    rows.emplace_back(fmt::format("{:10}", command->get_name()), command->get_description());
  }
  flush();
  rows = {{"help      ", "Show this list, or with a COMMAND its options; also --help"},
          {"version   ", "Show the version; also --version"}};
  return out + fmt::format("\nHelp:\n{}", two_columns(rows));
}

}  // namespace

std::string option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  if (option.get_positional()) names.push_back(option.get_name(true, false));
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  // A flag that can be negated is on by default, and its negative name is the one to know.
  const bool negated = !option.get_fnames().empty();
  for (const std::string& name : negated ? option.get_fnames() : option.get_lnames()) {
    if (name != "out") names.push_back("--" + name);
  }
  std::string text = fmt::format("{}", fmt::join(names, ","));
  if (!option.nonpositional()) return text + (takes_many(option) ? "..." : "");
  return takes_no_value(option) ? text : text + " " + value_name(option);
}

std::string option_text(const CLI::Option& option) {
  std::string text = option.get_description();
  std::string value = takes_no_value(option) ? "" : option.get_default_str();
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  if (!value.empty()) text += fmt::format(" (default {})", value);
  return text + ".";
}

std::string HelpFormatter::examples_of(const CLI::App* app) const {
  const auto examples = examples_.find(app);
  if (examples == examples_.end()) return {};
  return fmt::format("\nExamples:\n  {}\n", fmt::join(examples->second, "\n  "));
}

std::string HelpFormatter::usage_of(const CLI::App& app, const std::string& name) const {
  const auto set = usages_.find(&app);
  const std::string arguments = set == usages_.end() ? required_arguments(app) : set->second;
  constexpr size_t kIndent = 9;
  return wrapped("Usage: ", fmt::format("{} {} [OPTION...]", name, arguments), kIndent);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string out = wrapped("", app->get_description() + ".", 0) + examples_of(app);
  if (app->get_parent() == nullptr) {
    return out + fmt::format("\nUsage: {} COMMAND [ARGUMENT...]\n", name) + commands_of(*app);
  }
  const bool all = mode == CLI::AppFormatMode::All;
  out += "\n" + usage_of(*app, name) + groups_of(*app, all);
  if (!app->get_footer().empty()) out += "\n" + app->get_footer() + "\n";
  return all ? out : out + hint_of_rare_options(*app, name);
}

}  // namespace neuronmm::apps
