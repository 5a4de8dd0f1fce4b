// The tests in this file compare the installed man page, the bash completion and the description as
// JSON with what `--help-all` prints.

#include <fstream>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

using Names = std::set<std::string>;

Names captures(const std::string& text, const char* pattern) {
  Names found;
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match)
    found.insert((*match)[1]);
  return found;
}

// Returns the commands on the man page.
Names commands() { return captures(neuronmm("describe man-page").output, R"(^\.SS \\&(\S+)$)"); }

// Returns the flags that begin a line of the help, such as "  --prompt TEXT REQUIRED" or
// "  -o,--output TEXT".
Names flags(const std::string& command) {
  return captures(neuronmm(command + " --help-all").output, R"(^ +(?:\S+,)?(--[a-z][a-z0-9-]*))");
}

class Documentation : public ProgramTest {};

TEST_F(Documentation, EveryCommandIsInTheHelp) {
  const std::string help = neuronmm("--help").output;
  EXPECT_GT(commands().size(), 15u);
  for (const std::string& command : commands()) {
    EXPECT_TRUE(std::regex_search(
        help, std::regex("^ +" + command + "\\b", std::regex::ECMAScript | std::regex::multiline)))
        << command;
  }
  EXPECT_EQ(help.find("describe"), std::string::npos);
}

TEST_F(Documentation, TheManPageHasEveryFlag) {
  const std::string page = neuronmm("describe man-page").output;
  EXPECT_TRUE(page.starts_with(".TH neuronmm 1")) << page;
  for (const std::string& command : commands()) {
    const size_t begin = page.find(fmt::format(".SS \\&{}\n", command));
    const std::string section = page.substr(begin, page.find("\n.S", begin + 1) - begin);
    EXPECT_FALSE(flags(command).empty()) << command;
    for (const std::string& flag : flags(command)) {
      EXPECT_NE(section.find(std::regex_replace(flag, std::regex("-"), "\\-")), std::string::npos)
          << command << " " << flag;
    }
  }
}

// The tests of pages and help texts read the description as JSON.
TEST_F(Documentation, TheJsonHasEveryFlagWithItsValues) {
  const auto json = nlohmann::json::parse(neuronmm("describe json").output);
  for (const std::string& command : commands()) {
    const auto& described = json["commands"][command];
    EXPECT_FALSE(described["description"].get<std::string>().empty()) << command;
    Names found;
    for (const auto& option : described["options"]) {
      for (const std::string name : option["names"]) found.insert(name);
    }
    for (const std::string& flag : flags(command))
      EXPECT_TRUE(found.contains(flag)) << command << " " << flag;
  }
  const auto option_of = [&](const std::string& command, const std::string& name) {
    for (const auto& option : json["commands"][command]["options"]) {
      for (const std::string other : option["names"]) {
        if (other == name) return option;
      }
    }
    return nlohmann::json();
  };
  EXPECT_EQ(option_of("generate", "--device")["values"].dump(), "[1,1]");
  EXPECT_EQ(option_of("generate", "--prompt")["positional"], true);
  EXPECT_EQ(option_of("generate", "--prompt-file")["positional"], false);
  EXPECT_EQ(option_of("compress", "--dry-run")["values"].dump(), "[0,0]");
  EXPECT_EQ(option_of("compress", "--method")["choices"].dump(),
            R"(["whitened","two-sided","svd"])");
  EXPECT_FALSE(option_of("compress", "--ratio").contains("choices"));
  const auto model = option_of("compress", "MODEL_DIR");
  EXPECT_TRUE(model["positional"] == true && model["required"] == true) << model;
}

// The test lets bash run the completion and reads what it offers.
TEST_F(Documentation, BashOffersEveryCommandAndFlag) {
  const auto script = folder_ / "completion";
  std::ofstream(script) << neuronmm("describe bash-completion").output;
  const auto offered = [&](const std::string& words, int current) {
    const std::string command = fmt::format(
        "bash -c '. {}; COMP_WORDS=({}); COMP_CWORD={}; _neuronmm; printf \"%s\\n\" "
        "\"${{COMPREPLY[@]}}\"'",
        script.string(), words, current);
    const Outcome found = run_shell(command);
    EXPECT_EQ(found.exit_code, 0) << found.output;
    return captures(found.output, R"(^(\S+)$)");
  };
  const Names first = offered("neuronmm \"\"", 1);
  for (const std::string& command : commands()) {
    EXPECT_TRUE(first.contains(command)) << command;
    const Names found = offered("neuronmm " + command + " --", 2);
    for (const std::string& flag : flags(command))
      EXPECT_TRUE(found.contains(flag)) << command << " " << flag;
  }
  EXPECT_EQ(offered("neuronmm generate --top", 2), (Names{"--top-k", "--top-p"}));
  EXPECT_EQ(offered("neuronmm help per", 2), Names{"perplexity"});
  EXPECT_EQ(offered("neuronmm vers", 1), Names{"version"});
}

}  // namespace
}  // namespace neuronmm::apps
