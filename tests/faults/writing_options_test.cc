// Tests that the fault sweep is complete: every command that writes, and every option that writes a
// file or folder or changes how an output is written, stands in a command line of the sweep. The
// help texts tell which options there are. A new option must be added to command_lines.cc, or, if
// it writes nothing, to a list below.

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "command_lines.h"
#include "watched_program.h"

namespace neuronmm::faults {
namespace {

// Options whose value is a file or folder that is only read.
const std::set<std::string> kRead = {
    "--adapter", "--against",    "--api-key-file", "--calibration", "--config",      "--data",
    "--draft",   "--from-trace", "--measured",     "--messages",    "--prompt-file", "--reference",
    "--teacher", "--tls-cert",   "--tls-key",      "--tools",       "--validation"};

// Options of the group Output that change what is printed or written, but not where or how.
const std::set<std::string> kPrinted = {
    "--target", "--device", "--driver",  "--top",  "--lines",    "--program",        "--tensors",
    "--text",   "--plan",   "--dry-run", "--stop", "--logprobs", "--max-new-tokens", "--timings"};

// Options that make a folder beside the output.
const std::set<std::string> kBesideOutput = {"--dequantize"};

// A server ends only when it is told to. tests/serve writes its log on a full disk.
const std::set<std::string> kTestedElsewhere = {"serve --access-log"};

struct Option {
  std::string command, group, names, value;
};

// Returns the options in the help of a command.
std::vector<Option> options_of(const std::string& command, const std::string& help) {
  std::vector<Option> options;
  std::string group;
  const std::regex title("([A-Z][a-z]+):"), option(R"(  ((?:-\w,)?--[\w-]+)(?: (\S+))?  .*)");
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, title)) group = match[1];
    if (std::regex_match(line, match, option))
      options.push_back({command, group, match[1], match[2]});
  }
  return options;
}

// Returns whether the option may write: it names a file, or it is an option of the output.
bool may_write(const Option& option) {
  const std::string name = option.names.substr(option.names.find("--"));
  const bool place = option.value == "FILE" || option.value == "DIR" || option.value == "PATH";
  if (place) return !kRead.contains(name);
  return (option.group == "Output" && !kPrinted.contains(name)) || kBesideOutput.contains(name);
}

// Returns whether a command line of the sweep has the option, by any of its names.
bool is_swept(const Option& option) {
  return std::ranges::any_of(commands(), [&](const Command& command) {
    const std::vector<std::string> words = words_of(command.arguments);
    if (words.front() != option.command) return false;
    std::istringstream names(option.names);
    for (std::string name; std::getline(names, name, ',');) {
      if (std::ranges::find(words, name) != words.end()) return true;
    }
    return false;
  });
}

std::vector<Option> all_options(const WatchedProgram& program) {
  const auto described = nlohmann::json::parse(program.run("describe json").output);
  std::vector<Option> all;
  for (const auto& [command, content] : described.at("commands").items()) {
    const auto options = options_of(command, program.run(command + " --help-all").output);
    EXPECT_FALSE(options.empty()) << command;
    all.insert(all.end(), options.begin(), options.end());
  }
  return all;
}

TEST(WritingOptions, AllAreInTheFaultSweep) {
  const WatchedProgram program;
  const std::vector<Option> options = all_options(program);
  size_t writing = 0;
  for (const Option& option : options) {
    if (!may_write(option)) continue;
    ++writing;
    const std::string name = option.names.substr(option.names.find("--"));
    if (kTestedElsewhere.contains(option.command + " " + name)) continue;
    EXPECT_TRUE(is_swept(option)) << option.command << " " << option.names
                                  << ": expected in a command line of command_lines.cc";
  }
  EXPECT_GT(writing, 50u);
}

// A list that names an option that no longer exists would hide a later one of the same name.
TEST(WritingOptions, TheListsNameOptionsThatExist) {
  const WatchedProgram program;
  std::set<std::string> names;
  for (const Option& option : all_options(program)) {
    const std::string name = option.names.substr(option.names.find("--"));
    names.insert({name, option.command + " " + name});
  }
  for (const auto& list : {kRead, kPrinted, kBesideOutput, kTestedElsewhere}) {
    for (const std::string& name : list) EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace neuronmm::faults
