#include <fmt/core.h>

#include "base/interrupt.h"
#include "base/printable.h"
#include "commands.h"
#include "documentation.h"
#include "message.h"
#include "provenance.h"
#include "removed_options.h"
#include "suggestion.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

constexpr int kUsageError = 2;

// Prints help texts without the older name --out, which the parser still understands.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string names = CLI::Formatter::make_option_name(option, is_positional);
    constexpr std::string_view kOlderName = ",--out";
    if (names.ends_with(kOlderName)) names.resize(names.size() - kOlderName.size());
    return names;
  }
};

const char* title_of(CommandGroup group) {
  switch (group) {
    case CommandGroup::kModels:
      return "Models";
    case CommandGroup::kKernels:
      return "Trainium kernels";
    case CommandGroup::kPaper:
      break;
  }
  return "The paper";
}

// Returns advice about flags to append to an error message. The libraries do not name flags
// themselves, because other programs use them too.
std::string_view hint_of(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::kExists:
      return "; --force replaces it";
    case Error::Kind::kUnfinished:
      return "; --resume goes on with it, --force starts afresh";
    case Error::Kind::kFailure:
    case Error::Kind::kInterrupted:
      break;
  }
  return {};
}

std::vector<std::string> long_flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Returns the error message for an argument that `command` does not accept.
std::string unknown_argument(const CLI::App& command, const std::string& argument) {
  const bool is_flag = argument.size() > 1 && argument.starts_with('-');
  const bool is_command = !is_flag && command.get_parent() == nullptr;
  const std::string name = is_flag ? argument.substr(0, argument.find('=')) : argument;
  const auto nearest = is_flag      ? nearest_name(name, long_flags_of(command))
                       : is_command ? nearest_name(name, commands_of(command))
                                    : std::nullopt;
  return fmt::format("{} {:?}{}",
                     is_flag      ? "unknown flag"
                     : is_command ? "unknown command"
                                  : "unexpected argument",
                     name, nearest ? fmt::format("; did you mean {:?}?", *nearest) : "");
}

}  // namespace

Program::Program()
    : cli_("neuronmm: low-rank compression and fast inference of large language models",
           "neuronmm") {
  cli_.require_subcommand(1);
  cli_.set_version_flag("--version", fmt::format("neuronmm {}", kVersion));
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(34);
  cli_.formatter(formatter);
  add_describe();
}

// Adds the command `describe`, which the build runs. An empty group hides it from --help.
void Program::add_describe() {
  CLI::App* command = cli_.add_subcommand(
      "describe", "the program's description: as man page, as bash completion, or as JSON");
  command->group("");
  const auto form = std::make_shared<std::string>();
  command->add_option("FORM", *form, "which one")
      ->check(CLI::IsMember({"man-page", "bash-completion", "json"}))
      ->required();
  set_run(command, [this, form]() -> Result<int> {
    fmt::print("{}", *form == "man-page" ? man_page(cli_, kVersion)
                     : *form == "json"   ? program_json(cli_)
                                         : bash_completion(cli_));
    return 0;
  });
}

CLI::App* Program::add(CommandGroup group, const std::string& name,
                       const std::string& description) {
  return cli_.add_subcommand(name, description)->group(title_of(group));
}

void Program::set_run(CLI::App* command, Run run, ProcessMode mode) {
  if (mode != ProcessMode::kOneProcess) process_hooks_.add_options(command);
  entries_.push_back({command, std::move(run), mode});
}

// An unknown argument is reported before any other error, because a typo often makes other
// arguments seem wrong or missing, too.
int Program::report_parse_error(const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return cli_.exit(error);  // --help, --version
  const CLI::App* command = &cli_;
  if (const auto parsed = cli_.get_subcommands(); !parsed.empty()) command = parsed.front();
  const std::vector<std::string> unknown = cli_.remaining(/*recurse=*/true);
  const auto removed = removed_option_message(command->get_name(), arguments_);
  if (unknown.empty() && !removed) {
    cli_.exit(error);
    return kUsageError;
  }
  const bool in_command = command != &cli_;
  const std::string name = in_command ? "neuronmm " + command->get_name() : "neuronmm";
  print_message("{}: {}\n{} --help shows what there is\n", name,
                removed ? *removed : unknown_argument(*command, unknown.front()), name);
  return kUsageError;
}

int Program::run(int argc, char** argv) {
  arguments_.assign(argv + 1, argv + argc);
  try {
    cli_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_parse_error(error);
  }
  for (const Entry& entry : entries_) {
    if (!entry.command->parsed()) continue;
    record_command(arguments_, *entry.command);
    if (process_hooks_.run == nullptr) return run(entry);
    return process_hooks_.run({entry.command->get_name(), arguments_, entry.mode},
                              [&] { return run(entry); });
  }
  return kUsageError;
}

// Some commands check flags only while they run; a ParseError thrown there is also a usage error.
int Program::run(const Entry& entry) try {
  const Result<int> result = entry.run();
  if (result.ok()) return result.value();
  const Error& error = result.error();
  print_message("neuronmm {}: {}{}\n", entry.command->get_name(), printable(error.message),
                hint_of(error.kind));
  return error.kind == Error::Kind::kInterrupted ? kInterruptedExit : 1;
} catch (const CLI::ParseError& error) {
  return report_parse_error(error);
}

}  // namespace neuronmm::apps
