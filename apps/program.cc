#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/interrupt.h"
#include "base/printable.h"
#include "commands.h"
#include "documentation.h"
#include "flags.h"
#include "help.h"
#include "io/model_name.h"
#include "message.h"
#include "process.h"
#include "provenance.h"
#include "removed_options.h"
#include "usage_error.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

constexpr int kUsageError = 2;

std::string version_text() { return fmt::format("neuronmm {}", kVersion); }

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

// Returns what a user may do if the command runs out of memory: set those options to smaller values
// that the command has.
std::string memory_advice(const CLI::App& command) {
  std::vector<std::string> options;
  for (const char* name : {"--kv-cache-memory", "--max-num-seqs", "--context-length",
                           "--max-new-tokens", "--new-tokens", "--prompt-tokens",
                           "--calibration-tokens", "--batch", "--cutoff", "--threads"}) {
    if (command.get_option_no_throw(name) != nullptr) options.emplace_back(name);
  }
  if (options.empty()) return "more memory, or smaller inputs may do";
  return fmt::format("a smaller model or a smaller {} may fit", fmt::join(options, ", "));
}

// Lets the options that take a model take its name in the cache of Hugging Face, too. What is found
// nowhere stays as it is, and the command says what it expected.
void find_named_models(CLI::App* command) {
  constexpr std::string_view kOptions[] = {"MODEL_DIR", "DENSE_DIR", "COMPRESSED_DIR", "reference",
                                           "teacher",   "against",   "draft"};
  const CLI::Validator found(
      [](std::string& name) {
        name = io::find_model(name).string();
        return std::string();
      },
      "", "model");
  for (const std::string_view option : kOptions) {
    for (CLI::Option* const of_command : command->get_options()) {
      if (of_command->get_single_name() == option) of_command->transform(found);
    }
  }
}

}  // namespace

Program::Program()
    : cli_("neuronmm makes language models smaller and runs them fast on CPUs", "neuronmm"),
      help_(std::make_shared<HelpFormatter>()) {
  cli_.set_version_flag("--version", version_text(), "Show the version");
  cli_.set_help_flag("-h,--help", "Show this help");
  cli_.set_help_all_flag("--help-all", "Show this help with the rare options");
  cli_.formatter(help_);
  help_->set_examples(&cli_,
                      {"neuronmm generate MODEL_DIR \"Once upon a time\"",
                       "neuronmm quantize MODEL_DIR -o small --bits 4 --calibration text.txt"});
  cli_.add_subcommand("help", "Show how a command is used")->group("");  // see show_help()
  add_version();
  add_describe();
}

// Carries out `neuronmm help [COMMAND]`. CLI11 would take COMMAND for a second command to run.
int Program::show_help() {
  const CLI::App* about = &cli_;
  CLI::AppFormatMode mode = CLI::AppFormatMode::Normal;
  for (const std::string& argument : std::span(arguments_).subspan(1)) {
    if (argument == "--help-all") mode = CLI::AppFormatMode::All;
    if (argument == "--help-all" || argument == "--help" || argument == "-h") continue;
    const CLI::App* command = about == &cli_ ? find_command(cli_, argument) : nullptr;
    if (command == nullptr) {
      print_message("neuronmm help: {}\n", printable(unknown_argument(*about, argument)));
      return kUsageError;
    }
    about = command;
  }
  const std::string name = about == &cli_ ? "neuronmm" : "neuronmm " + about->get_name();
  fmt::print("{}", help_->make_help(about, name, mode));
  return 0;
}

void Program::add_version() {
  CLI::App* command = cli_.add_subcommand("version", "Show the version")->group("");
  set_run(command, []() -> Result<int> {
    fmt::print("{}\n", version_text());
    return 0;
  });
}

// Adds the command `describe`, which the build runs. Commands without a group are not in the help.
void Program::add_describe() {
  CLI::App* command = cli_.add_subcommand(
      "describe", "Print the program's description as man page, bash completion or JSON");
  command->group("");
  const auto form = std::make_shared<std::string>();
  command->add_option("FORM", *form, "Form of the description: man-page, bash-completion or json")
      ->check(CLI::IsMember({"man-page", "bash-completion", "json"}))
      ->group(kInput)
      ->required();
  set_run(command, [this, form]() -> Result<int> {
    fmt::print("{}", *form == "man-page" ? man_page(cli_, kVersion)
                     : *form == "json"   ? program_json(cli_)
                                         : bash_completion(cli_));
    return 0;
  });
}

CLI::App* Program::add(CommandGroup group, const std::string& name, const std::string& summary,
                       const std::vector<std::string>& examples) {
  CLI::App* command = cli_.add_subcommand(name, summary)->group(title_of(group));
  help_->set_examples(command, examples);
  return command;
}

void Program::set_run(CLI::App* command, Run run, ProcessMode mode) {
  find_named_models(command);
  if (mode != ProcessMode::kOneProcess) process_hooks_.add_options(command);
  entries_.push_back({command, std::move(run), mode});
}

// Returns the message about wrong usage. An unknown flag is reported before any other error,
// because a typo often makes other arguments seem wrong or missing, too. An option without its
// value comes next: it takes the option after it for its value, whose own value then belongs to
// nobody.
std::string Program::usage_message(CLI::App& command, const std::string& name,
                                   const CLI::ParseError& error) {
  if (const auto removed = removed_option_message(command.get_name(), arguments_)) return *removed;
  const std::vector<std::string> unknown = cli_.remaining(/*recurse=*/true);
  const bool unknown_flag = !unknown.empty() && unknown.front().starts_with('-');
  if (unknown_flag) return unknown_argument(command, unknown.front());
  if (const auto missing = missing_value(command, arguments_)) return *missing;
  if (!unknown.empty()) return unknown_argument(command, unknown.front());
  return parse_error_message(command, name, error);
}

int Program::report_parse_error(const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return cli_.exit(error);  // --help, --version
  CLI::App* command = &cli_;
  if (const auto parsed = cli_.get_subcommands(); !parsed.empty()) command = parsed.front();
  const std::string name = command == &cli_ ? "neuronmm" : "neuronmm " + command->get_name();
  print_message("{}: {}\n", name, printable(usage_message(*command, name, error)));
  return kUsageError;
}

int Program::run(int argc, char** argv) {
  arguments_.assign(argv + 1, argv + argc);
  if (!arguments_.empty() && arguments_.front() == "help") return show_help();
  try {
    cli_.parse(argc, argv);
    for (const CLI::App* command : cli_.get_subcommands()) {
      if (const auto missing = missing_value(*command, arguments_))
        throw CLI::ValidationError(*missing);
      if (const auto empty = empty_value(*command)) throw CLI::ValidationError(*empty);
      use_named_adapter(*command);
    }
  } catch (const CLI::ParseError& error) {
    return report_parse_error(error);
  }
  if (cli_.get_subcommands().empty()) {
    fmt::print("{}", cli_.help());
    return 0;
  }
  for (const Entry& entry : entries_) {
    if (!entry.command->parsed()) continue;
    record_command(arguments_, *entry.command);
    set_running_command(entry.command->get_name(), memory_advice(*entry.command));
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
