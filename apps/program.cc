#include <iostream>
#include <iterator>
#include <new>

#include <fmt/core.h>

#include "commands.h"
#include "documentation.h"
#include "io/folder_writer.h"
#include "io/text_file.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

constexpr int kUsageError = 2;
constexpr int kInterruptedExit = 130;  // 128 + SIGINT, what shells report

// A cache or a model larger than the memory is input's doing: an error like any other.
Result<int> run_in_memory(const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return fail("out of memory: a smaller model, context or --max-new-tokens may fit");
  }
}

}  // namespace

Program::Program()
    : cli_("neuronmm: low-rank compression and fast inference of large language models",
           "neuronmm") {
  cli_.require_subcommand(1);
  cli_.set_version_flag("--version", fmt::format("neuronmm {}", kVersion));
  cli_.get_formatter()->column_width(34);
  add_describe();
}

// For the build: not in --help.
void Program::add_describe() {
  CLI::App* command = add("describe", "the program's description in the forms that are installed");
  command->group("");
  const auto form = std::make_shared<std::string>();
  command->add_option("FORM", *form, "which one")
      ->check(CLI::IsMember({"man-page", "bash-completion"}))
      ->required();
  set_run(command, [this, form]() -> Result<int> {
    fmt::print("{}", *form == "man-page" ? man_page(cli_, kVersion) : bash_completion(cli_));
    return 0;
  });
}

CLI::App* Program::add(const std::string& name, const std::string& description) {
  return cli_.add_subcommand(name, description);
}

void Program::set_run(CLI::App* command, Run run) { runs_.emplace_back(command, std::move(run)); }

int Program::run(int argc, char** argv) {
  try {
    cli_.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli_.exit(error) == 0 ? 0 : kUsageError;
  }
  for (const auto& [command, run] : runs_) {
    if (!command->parsed()) continue;
    const Result<int> result = run_in_memory(run);
    if (result.ok()) return result.value();
    fmt::print(stderr, "neuronmm {}: {}\n", command->get_name(), result.error().message);
    return result.error().kind == Error::Kind::kInterrupted ? kInterruptedExit : 1;
  }
  return kUsageError;
}

Result<std::string> read_text_argument(const std::string& path_or_dash) {
  if (path_or_dash != "-") return io::read_text_file(path_or_dash);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

}  // namespace neuronmm::apps
