// The tests in this file read the help of every command as a user does: its width, its first
// sentence, its examples and the groups of its options.

#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

constexpr size_t kMaxColumns = 80;
constexpr std::array kGroups = {"Input:", "Output:", "Quality:", "Speed:", "Advanced:"};

std::vector<std::string> lines_of_help(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the first capture of every match in `text`. ^ and $ match at lines.
std::vector<std::string> matches_of(const std::string& text, const char* pattern) {
  std::vector<std::string> found;
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

// Returns all commands that the overview lists.
std::vector<std::string> listed_commands() {
  const std::string page = neuronmm("describe man-page").output;
  return matches_of(page, R"(^\.SS \\&(\S+)$)");
}

// An option as the help shows it.
struct ShownOption {
  std::string group, names, text;
  int lines = 1;
};

// Returns the options in a help text, with lines that go on joined to their beginnings.
std::vector<ShownOption> options_of(const std::string& help) {
  std::vector<ShownOption> options;
  std::string group;
  const std::regex option(R"(^  (\S+(?: \S+)*)  +(\S.*)$)");
  for (const std::string& line : lines_of_help(help)) {
    std::smatch match;
    if (!line.starts_with(' ')) {
      group = std::ranges::find(kGroups, line) == kGroups.end() ? "" : line;
    } else if (group.empty()) {
      continue;
    } else if (line.starts_with("   ")) {
      options.back().text += " " + line.substr(line.find_first_not_of(' '));
      ++options.back().lines;
    } else if (std::regex_match(line, match, option)) {
      options.push_back({group, match[1], match[2]});
    } else {
      ADD_FAILURE() << "expected an option: " << line;
    }
  }
  return options;
}

class Help : public ProgramTest {};

TEST_F(Help, EveryLineFitsTheTerminal) {
  std::vector<std::string> all = {"", "--help", "--help-all"};
  for (const std::string& command : listed_commands()) {
    all.push_back(command + " --help");
    all.push_back(command + " --help-all");
  }
  EXPECT_GT(all.size(), 40u);
  for (const std::string& arguments : all) {
    const Outcome help = neuronmm(arguments);
    EXPECT_EQ(help.exit_code, 0) << arguments;
    for (const std::string& line : lines_of_help(help.output))
      EXPECT_LE(line.size(), kMaxColumns) << arguments << ": " << line;
  }
}

TEST_F(Help, BeginsWithASentenceAndTwoExamples) {
  for (const std::string& command : listed_commands()) {
    for (const char* flag : {"--help", "--help-all"}) {
      const auto lines = lines_of_help(neuronmm(command + " " + flag).output);
      ASSERT_GT(lines.size(), 6u) << command;
      EXPECT_TRUE(std::regex_match(lines[0], std::regex("[A-Z][^.]*( [^.]*)+\\."))) << lines[0];
      EXPECT_EQ(lines[2], "Examples:") << command;
      for (const size_t i : {3, 4})
        EXPECT_TRUE(lines[i].starts_with("  neuronmm " + command)) << lines[i];
      EXPECT_TRUE(lines[6].starts_with("Usage: neuronmm " + command)) << lines[6];
    }
  }
}

// The examples name models that are not there. A flag that does not exist or a value that a flag
// refuses would be wrong usage, exit code 2.
TEST_F(Help, ExamplesAreNoWrongUsage) {
  write("kernel.py", "def add(a, b):\n    return a\n");
  for (const std::string& command : listed_commands()) {
    const std::string help = neuronmm(command + " --help").output;
    for (const std::string& example : matches_of(help, "^  (neuronmm .*)$")) {
      const Outcome outcome =
          run_shell(fmt::format("cd '{}' && neuronmm() {{ '{}' \"$@\"; }}; {} 2>&1 </dev/null",
                                folder_.string(), program_path().string(), example));
      EXPECT_LT(outcome.exit_code, 2) << example << "\n" << outcome.output;
    }
  }
}

TEST_F(Help, EveryOptionHasAGroupAndASentence) {
  for (const std::string& command : listed_commands()) {
    const std::string help = neuronmm(command + " --help-all").output;
    for (const ShownOption& option : options_of(help)) {
      EXPECT_TRUE(std::regex_match(option.text, std::regex("[A-Z$].*\\.")))
          << command << " " << option.names << ": " << option.text;
      EXPECT_LE(option.lines, 2) << command << " " << option.names;
    }
  }
}

// The man page lists the options of all groups, also of groups that the help does not know.
TEST_F(Help, ShowsTheSameOptionsAsTheManPage) {
  const std::string page =
      std::regex_replace(neuronmm("describe man-page").output, std::regex(R"(\\-)"), "-");
  for (const std::string& command : listed_commands()) {
    const size_t begin = page.find(fmt::format(".SS \\&{}\n", command));
    const std::string section = page.substr(begin, page.find("\n.S", begin + 1) - begin);
    std::set<std::string> in_page, in_help;
    for (const std::string& names : matches_of(section, R"(^\.B \\&(.*)$)"))
      if (!names.starts_with("-h,--help") && names != "--help-all") in_page.insert(names);
    for (const ShownOption& option : options_of(neuronmm(command + " --help-all").output))
      in_help.insert(option.names);
    EXPECT_EQ(in_page, in_help) << command;
  }
}

TEST_F(Help, RareOptionsAreOnlyInHelpAll) {
  const std::string help = neuronmm("generate --help").output,
                    all = neuronmm("generate --help-all").output;
  EXPECT_EQ(help.find("--min-p"), std::string::npos) << help;
  EXPECT_NE(all.find("  --min-p X"), std::string::npos) << all;
  const size_t rare = options_of(all).size() - options_of(help).size();
  EXPECT_NE(
      help.find(fmt::format("`neuronmm generate --help-all` also shows {} rare options.", rare)),
      std::string::npos)
      << help;
  EXPECT_EQ(all.find("`neuronmm generate --help-all`"), std::string::npos);
  EXPECT_EQ(neuronmm("help generate").output, help);
  EXPECT_EQ(neuronmm("help generate --help-all").output, all);
  EXPECT_EQ(neuronmm("generate -h").output, help);
}

TEST_F(Help, AllWaysToAskForItSucceed) {
  const Outcome overview = neuronmm("");
  expect(overview, 0, {"Examples:", "Models:", "\nHelp:\n  help ", "--version"});
  for (const char* arguments : {"help", "--help", "-h", "--help-all", "help --help-all"})
    EXPECT_EQ(neuronmm(arguments).output, overview.output) << arguments;
  expect(neuronmm("version"), 0, {"neuronmm "});
  EXPECT_EQ(neuronmm("--version").output, neuronmm("version").output);
  EXPECT_EQ(neuronmm("", "", "/dev/null").output, overview.output);  // on standard output
}

TEST_F(Help, AnUnknownCommandIsWrongUsage) {
  const auto message_of = [](const std::string& arguments) {
    const Outcome outcome = neuronmm(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(lines_of_help(outcome.output).size(), 1u) << outcome.output;
    return outcome.output;
  };
  EXPECT_NE(
      message_of("help genrate").find("unknown command \"genrate\"; did you mean \"generate\"?"),
      std::string::npos);
  EXPECT_NE(message_of("genrate").find("unknown command \"genrate\"; did you mean \"generate\"?"),
            std::string::npos);
  EXPECT_NE(message_of("zzz").find("`neuronmm help` lists the commands"), std::string::npos);
  message_of("help zzz");
  message_of("help generate chat");
}

TEST_F(Help, WrongUsageIsOneSentence) {
  const std::pair<const char*, const char*> cases[] = {
      {"fit m --bytes 80XB",
       "neuronmm fit: --bytes: expected a size in bytes, as 4G, 80M, 80MB, 80MiB or 512K, found "
       "\"80XB\"\n"},
      {"serve m --kv-cache-memory 4X",
       "neuronmm serve: --kv-cache-memory: expected a size in bytes, as 4G, 80M, 80MB, 80MiB or "
       "512K, found \"4X\"\n"},
      {"generate m --prompt-file",
       "neuronmm generate: --prompt-file needs a value, as in --prompt-file FILE\n"},
      {"generate m --prompt-file --chat",
       "neuronmm generate: --prompt-file needs a value, as in --prompt-file FILE, found the option "
       "--chat\n"},
      {"fit m --bytes --plan",
       "neuronmm fit: --bytes needs a value, as in --bytes SIZE, found the option --plan\n"},
      {"fit m --bytes --calibration text.txt",
       "neuronmm fit: --bytes needs a value, as in --bytes SIZE, found the option --calibration\n"},
      {"generate m --max-new-tokens --temperature 1",
       "neuronmm generate: --max-new-tokens needs a value, as in --max-new-tokens N, found the "
       "option --temperature\n"},
      {"quantize m",
       "neuronmm quantize: -o,--output DIR is required; `neuronmm quantize --help` shows "
       "examples\n"},
      {"inspect",
       "neuronmm inspect: MODEL_DIR is required; `neuronmm inspect --help` shows examples\n"},
      {"generate m x --prompt y",
       "neuronmm generate: --prompt takes one value and was given more than once\n"},
      {"inspect m --zzz",
       "neuronmm inspect: unknown flag \"--zzz\"; `neuronmm help inspect` lists what there is\n"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = neuronmm(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.output, message);
  }
  // Text that looks like a flag of another command is a value.
  expect(neuronmm("generate nowhere --prompt --plan"), 1, {"nowhere"});
  expect(neuronmm("generate nowhere --prompt=--chat"), 1, {"nowhere"});
}

}  // namespace
}  // namespace neuronmm::apps
