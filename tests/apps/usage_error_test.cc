// The tests in this file type wrong command lines. Each message is one sentence that names the
// option, what was expected and what was found, and the exit code is 2. A file that is missing or
// cannot be read is no wrong usage: its exit code is 1.

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

class UsageError : public ProgramTest {
 protected:
  // Returns every command with its options, as the program describes itself.
  static nlohmann::json commands() {
    return nlohmann::json::parse(neuronmm("describe json").output).at("commands");
  }
};

TEST_F(UsageError, NamesTheOptionWhatWasExpectedAndWhatWasFound) {
  const std::pair<const char*, const char*> cases[] = {
      {"serve m --port 70000",
       "serve: --port: expected a whole number from 0 to 65535, found \"70000\""},
      {"serve m --port abc",
       "serve: --port: expected a whole number from 0 to 65535, found \"abc\""},
      {"serve m --port 1.5",
       "serve: --port: expected a whole number from 0 to 65535, found \"1.5\""},
      {"quantize m -o q --bits 5", "quantize: --bits: expected 8, 6 or 4, found \"5\""},
      {"quantize m -o q --bits four", "quantize: --bits: expected 8, 6 or 4, found \"four\""},
      {"import x -o q --dtype bf61",
       "import: --dtype: expected bf16, f16 or f32, found \"bf61\"; did you mean \"bf16\"?"},
      {"nki k.py:f --max-seconds 0", "nki: --max-seconds: expected a number above 0, found \"0\""},
      {"nki k.py:f --tolerance -1", "nki: --tolerance: expected a number from 0, found \"-1\""},
      {"nki k.py:f --seed x", "nki: --seed: expected a whole number, found \"x\""},
      {"paper kernel",
       "paper: FIGURE: expected kernels, traffic, blocks, validation, tuning, fused-mlp, "
       "end-to-end, forms or quality, found \"kernel\"; did you mean \"kernels\"?"},
      {"bench m --prompt-tokens 4,0",
       "bench: --prompt-tokens: expected a whole number from 1 to 1073741824, found \"0\""},
      {"generate m x --top-p 2", "generate: --top-p: expected a number from 0 to 1, found \"2\""},
      {"generate m x --system hi", "generate: --system needs --chat and was given without it"},
      {"generate m x --prompt-file f",
       "generate: --prompt and --prompt-file exclude each other; give one of them"},
      {"compress m -o q --ratio 0.2 --dry-run=perhaps",
       "compress: --dry-run takes no value and was given one"},
      {"compress m -o q --ratio 0.2 --method svd --calibration-tokens 100",
       "compress: --calibration-tokens needs --calibration, the text that has the tokens"},
      {"quantize m -o q --calibration-tokens 100",
       "quantize: --calibration-tokens needs --calibration, the text that has the tokens"},
      {"export m -o q --target gguf --statistics s --calibration-tokens 100",
       "export: --calibration-tokens needs --calibration, the text that has the tokens"},
      {"inspect m more",
       "inspect: unexpected argument \"more\": expected no more than MODEL_DIR; `neuronmm help "
       "inspect` lists what there is"},
      {"generate m Once upon",
       "generate: unexpected argument \"upon\": expected no more than MODEL_DIR PROMPT (text with "
       "spaces needs quotes); `neuronmm help generate` lists what there is"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = neuronmm(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.output, fmt::format("neuronmm {}\n", message));
  }
}

// The message names the way that was used, or all ways.
TEST_F(UsageError, AnEmptyPromptNamesTheWaysToGiveOne) {
  expect(neuronmm("generate " + kOneLayer + " ''"), 1,
         {"the prompt is empty", "PROMPT", "--prompt-file", "pipe"});
  expect(neuronmm("check " + kOneLayer + " --reference " + kOneLayer + " --prompt ''"), 1,
         {"--prompt is empty"});
}

// The first flag of every command that takes a list of values gets one that is not in it.
TEST_F(UsageError, EveryCommandRefusesAnUnknownChoiceWithTheList) {
  int checked = 0;
  const auto all = commands();
  for (const auto& [name, command] : all.items()) {
    for (const auto& option : command.at("options")) {
      if (!option.contains("choices") || option.at("positional")) continue;
      const std::string flag = option.at("names").back(), last = option.at("choices").back();
      const Outcome outcome = neuronmm(name + " " + flag + " nonsense");
      expect(outcome, 2, {flag.c_str(), "expected ", last.c_str(), "found \"nonsense\""});
      EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << outcome.output;
      ++checked;
      break;
    }
  }
  EXPECT_GT(checked, 10);
}

// Returns an argument that has the form of what a usage line shows, but does not exist.
std::string value_for(const std::string& placeholder) {
  if (placeholder == "SIZE") return "80M";
  if (placeholder == "X") return "0.5";
  if (placeholder == "N") return "7";
  if (placeholder == "SHAPE") return "512,512,256,512";
  if (placeholder == "KERNEL") return "xuv";
  if (placeholder == "FIGURE") return "kernels";
  if (placeholder == "NAME") return "nxdi";
  if (placeholder == "FILE.py:FUNCTION") return "nowhere.py:f";
  return "/nowhere/" + placeholder;
}

// A command line that has what the usage line demands, and nothing else, is no wrong usage.
TEST_F(UsageError, WhatTheUsageLineDemandsIsEnough) {
  const auto all = commands();
  EXPECT_GT(all.size(), 20u);
  for (const auto& [name, command] : all.items()) {
    if (name == "serve" || name == "paper" || name == "tune")
      continue;  // these would start to work
    const std::string help = neuronmm(name + " --help").output;
    const size_t begin = help.find("Usage: "), end = help.find("[OPTION...]");
    ASSERT_NE(end, std::string::npos) << help;
    std::string line = help.substr(begin, end - begin);
    line = std::regex_replace(line, std::regex(R"(\s+)"), " ");
    line = std::regex_replace(line, std::regex(R"(\(([^|)]*)\|[^)]*\))"), "$1");  // the first way
    line = std::regex_replace(line, std::regex(R"(\[[^\]]*\])"), "");
    line = std::regex_replace(line, std::regex(R"(\.\.\.)"), "");
    std::string arguments;
    std::istringstream words(line.substr(std::string("Usage: neuronmm").size()));
    for (std::string word; words >> word;) {
      const bool literal = word.starts_with('-') || word == name;
      arguments += " " + (literal ? word : value_for(word));
    }
    const Outcome outcome = neuronmm(arguments, "timeout 20");
    EXPECT_LT(outcome.exit_code, 2) << arguments << "\n" << outcome.output;
  }
}

// Each command gets a path that is missing, a folder in place of a file, and a file in place of a
// folder. Root may read everything, so that a file without permissions is tried only by others.
TEST_F(UsageError, FilesThatCannotBeReadAreNoWrongUsage) {
  const std::string missing = path("missing"), file = write("file", "{"), folder = path("folder");
  std::filesystem::create_directory(folder);
  const std::vector<std::string> commands = {
      "import {} -o " + path("out"),
      "synthesize --config {} -o " + path("out"),
      "inspect {}",
      "generate {} x",
      "chat {}",
      "tokenize {} x",
      "tokenize " + kOneLayer + " --messages {}",
      "bench {}",
      "bench " + kOneLayer + " --against {}",
      "serve {} --port 0",
      "quantize {} -o " + path("out"),
      "quantize " + kOneLayer + " -o " + path("out") + " --calibration {}",
      "compress {} --ratio 0.2 --dry-run",
      "compress " + kOneLayer + " -o " + path("out") + " --ratio 0.2 --calibration {}",
      "fit {} -o " + path("out") + " --bytes 8M --calibration " + kOneLayer + "/calibration.txt",
      "fit " + kOneLayer + " -o " + path("out") + " --bytes 8M --calibration {}",
      "perplexity {} " + kOneLayer + "/evaluation.txt",
      "perplexity " + kOneLayer + " {}",
      "eval " + kOneLayer + " --data {}",
      "compare " + kOneLayer + " {} --data " + folder,
      "check {} --reference " + kOneLayer,
      "check " + kOneLayer + " --reference {}",
      "export {} --target nxdi -o " + path("out"),
      "nki {}.py:f",
      "nki --from-trace {}",
      "paper validation --measured {}"};
  for (const std::string& command : commands) {
    for (const std::string& input : {missing, file, folder}) {
      const std::string arguments = fmt::format(fmt::runtime(command), input);
      const Outcome outcome = neuronmm(arguments, "timeout 20");
      EXPECT_EQ(outcome.exit_code, 1) << arguments << "\n" << outcome.output;
      EXPECT_NE(outcome.output.find("neuronmm "), std::string::npos) << arguments;
    }
  }
  for (const std::string& input : {missing, folder})  // every file is a prompt
    expect(neuronmm("generate " + kOneLayer + " --prompt-file " + input), 1, {"--prompt-file"});
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

}  // namespace
}  // namespace neuronmm::apps
