// The tests in this file run `neuronmm generate` as a user does. They check where its settings come
// from, what ends a text, and what it prints on standard error.

#include <algorithm>
#include <regex>

#include <fmt/format.h>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

const std::string kPromptFlags = " 'Once upon a time' --max-new-tokens 24 ";

std::string text_of(const std::string& arguments) {
  const Outcome outcome = neuronmm("generate " + arguments, "", "/dev/null");
  EXPECT_EQ(outcome.exit_code, 0) << arguments;
  return outcome.output;
}

// Returns what the command prints to standard error.
std::string messages_of(const std::string& arguments) {
  return neuronmm("generate " + arguments + " 3>&1 >/dev/null", "", "&3").output;
}

// Returns the ids of the tokens that the command generates.
std::vector<std::string> ids_of(const std::string& arguments) {
  const std::string messages = messages_of(arguments + " --logprobs 0");
  const std::regex line(R"(logprob .* \((\d+)\) -)");
  std::vector<std::string> ids;
  for (std::sregex_iterator match(messages.begin(), messages.end(), line), end; match != end;
       ++match)
    ids.push_back((*match)[1]);
  return ids;
}

std::string quoted(const std::string& text) {
  return "'" + std::regex_replace(text, std::regex("'"), R"('\'')") + "'";
}

class GenerateCommand : public ProgramTest {
 protected:
  std::string model_with(const std::string& generation_config) const {
    fs::copy(kDemo, folder_ / "model", fs::copy_options::recursive);
    write("model/generation_config.json", generation_config);
    return path("model");
  }
};

// The second run sees two memory domains if the system lets it mount a folder with them.
TEST_F(GenerateCommand, BindingThreadsChangesNoText) {
  const std::string flags = kDemo + kPromptFlags + "--greedy --threads 2";
  const std::string expected = text_of(flags);
  EXPECT_EQ(text_of(flags + " --numa"), expected);
  const std::string cores = run_shell("taskset -cp $$ | sed 's/.*: //'").output;
  for (const char* const node : {"node0", "node1"}) {
    fs::create_directories(folder_ / "nodes" / node);
    write(std::string("nodes/") + node + "/cpulist", cores);
  }
  const std::string mounted = "unshare -m sh -c 'mount --bind " + path("nodes") +
                              " /sys/devices/system/node && exec \"$@\"' sh";
  if (run_shell(mounted + " true 2>/dev/null").exit_code != 0) return;
  const Outcome outcome = neuronmm("generate " + flags + " --numa", mounted, "/dev/null");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, expected);
}

TEST_F(GenerateCommand, TheModelsSettingsAreTheDefaults) {
  const std::string model = model_with(
      R"({"do_sample": true, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.02,
          "repetition_penalty": 1.2, "max_new_tokens": 24, "eos_token_id": 2047})");
  const std::string prompt = " 'Once upon a time' ";
  const std::string flags =
      " --temperature 0.8 --top-k 40 --top-p 0.9 --min-p 0.02 --repetition-penalty 1.2 ";
  EXPECT_EQ(text_of(model + prompt + "--seed 7"),
            text_of(kDemo + kPromptFlags + flags + "--seed 7"));
  EXPECT_NE(text_of(model + prompt + "--seed 7"), text_of(model + prompt + "--seed 8"));
  expect(neuronmm("generate " + model + prompt + "--seed 7"), 0,
         {"generation_config.json: temperature 0.8, top_k 40, top_p 0.9, min_p 0.02, "
          "repetition_penalty 1.2, max_new_tokens 24\n"});
  expect(neuronmm("generate " + model + prompt + "--seed 7 --top-k 0 --max-new-tokens 2"), 0,
         {"generation_config.json: temperature 0.8, top_p 0.9, min_p 0.02, repetition_penalty"});
  const std::string greedy = text_of(kDemo + kPromptFlags + "--repetition-penalty 1.2");
  for (const std::string flag : {"--greedy", "--temperature 0"}) {
    EXPECT_EQ(text_of(model + prompt + flag), greedy) << flag;
    expect(neuronmm("generate " + model + prompt + flag), 0,
           {"generation_config.json: repetition_penalty 1.2, max_new_tokens 24\n"});
  }
}

TEST_F(GenerateCommand, WithoutDoSampleNothingIsDrawn) {
  const std::string model = model_with(R"({"temperature": 0.8, "top_p": 0.5})");
  EXPECT_EQ(text_of(model + kPromptFlags), text_of(kDemo + kPromptFlags));
  const std::string messages = messages_of(model + kPromptFlags);
  EXPECT_EQ(messages.find("generation_config.json"), std::string::npos) << messages;
  EXPECT_EQ(messages.find("--seed"), std::string::npos) << messages;
  // With --temperature tokens are drawn, with the top_p of the file.
  expect(neuronmm("generate " + model + kPromptFlags + "--temperature 0.7"), 0,
         {"generation_config.json: top_p 0.5\n", "--seed"});
}

TEST_F(GenerateCommand, TheModelsStopTokensEndTheText) {
  const std::vector<std::string> ids = ids_of(kDemo + kPromptFlags);
  ASSERT_EQ(ids.size(), 24u);
  const std::string model = model_with(R"({"eos_token_id": [2047, )" + ids[9] + "]}");
  const std::string ended = text_of(model + kPromptFlags), whole = text_of(kDemo + kPromptFlags);
  EXPECT_LT(ended.size(), whole.size());
  EXPECT_EQ(text_of(model + kPromptFlags + "--ignore-eos"), whole);
}

TEST_F(GenerateCommand, AWrongGenerationConfigIsRefused) {
  const std::string model = model_with(R"({"top_p": 1.5})");
  expect(neuronmm("generate " + model + " x"), 1,
         {"generation_config.json", "\"top_p\": expected a number from 0 to 1, found 1.5"});
}

TEST_F(GenerateCommand, SaysWhyATextIsCut) {
  const std::string flags = kDemo + " 'Once upon a time' --greedy --ignore-eos ";
  EXPECT_NE(messages_of(flags + "--max-new-tokens 1")
                .find("the answer ends here at its limit of 1 token: --max-new-tokens N"),
            std::string::npos);
  EXPECT_NE(messages_of(flags + "--max-new-tokens 2000")
                .find("the answer ends here because the context of 512 tokens is full"),
            std::string::npos);
  EXPECT_EQ(messages_of(flags + "--stop ' '").find("ends here"), std::string::npos);
}

TEST_F(GenerateCommand, ARandomSeedIsPrintedAndRepeatsTheText) {
  const std::string flags = kDemo + kPromptFlags + "--temperature 1.5 ";
  const Outcome first = neuronmm("generate " + flags, "", path("messages"));
  const std::string messages = read(path("messages"));
  std::smatch seed;
  ASSERT_TRUE(std::regex_search(messages, seed, std::regex("--seed [0-9]+"))) << messages;
  EXPECT_EQ(text_of(flags + seed.str()), first.output);
  EXPECT_NE(text_of(flags), first.output);
  EXPECT_EQ(messages_of(flags + seed.str()).find("--seed"), std::string::npos);
}

// Runs generate in the shell with this before and after it, without its messages.
std::string shell_text(const std::string& before, const std::string& after) {
  return run_shell(before + " '" + program_path().string() + "' generate " + kDemo +
                   " --max-new-tokens 8 " + after + " 2>/dev/null")
      .output;
}

TEST_F(GenerateCommand, PromptsComeFromArgumentsFilesAndStandardInput) {
  const std::string file = write("prompt.txt", "Once upon a time");
  const std::string expected = shell_text("", "--prompt 'Once upon a time'");
  EXPECT_GT(expected.size(), 8u);
  EXPECT_EQ(shell_text("", "'Once upon a time'"), expected);
  EXPECT_EQ(shell_text("", "--prompt-file " + file), expected);
  EXPECT_EQ(shell_text("", "- <" + file), expected);
  EXPECT_EQ(shell_text("", "--prompt - <" + file), expected);
  EXPECT_EQ(shell_text("", "--prompt-file - <" + file), expected);
  EXPECT_EQ(shell_text("", "<" + file), expected);
  EXPECT_EQ(shell_text("printf 'Once upon a time' |", ""), expected);
}

TEST_F(GenerateCommand, APromptKeepsItsLastNewline) {
  const std::string file = write("prompt.txt", "Once upon a time\n");
  const std::string expected = shell_text("", "'Once upon a time\n'");
  EXPECT_NE(expected, shell_text("", "'Once upon a time'"));
  EXPECT_EQ(shell_text("", "--prompt-file " + file), expected);
  EXPECT_EQ(shell_text("", "- <" + file), expected);
  EXPECT_EQ(shell_text("echo 'Once upon a time' |", ""), expected);
}

TEST_F(GenerateCommand, MissingAndEmptyPromptsAreRefused) {
  expect(neuronmm("generate " + kDemo), 1, {"standard input is empty"});
  expect(neuronmm("generate " + kDemo + " -"), 1, {"standard input is empty"});
  expect(neuronmm("generate " + kDemo + " --prompt ''"), 1, {"the prompt is empty"});
  const std::string file = write("empty.txt", "");
  expect(neuronmm("generate " + kDemo + " --prompt-file " + file), 1, {"empty.txt is empty"});
  expect(neuronmm("generate " + kDemo + " x --prompt-file " + file), 2, {"--prompt-file"});
  const Outcome missing = neuronmm("generate " + kDemo + " --prompt-file nowhere.txt");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.output,
            "neuronmm generate: --prompt-file: nowhere.txt: cannot be read: No such file or "
            "directory\n");
  // script(1) runs the program on a terminal.
  if (run_shell("command -v script").exit_code == 0) {
    expect(run_shell("script -qec \"'" + program_path().string() + "' generate " + kDemo +
                     "\" /dev/null </dev/null"),
           2, {"a prompt is required", "--prompt-file FILE", "echo hi |"});
  }
}

TEST_F(GenerateCommand, StopStringsEndTheText) {
  const std::string whole = text_of(kDemo + kPromptFlags);
  ASSERT_GT(whole.size(), 40u);
  // The stop strings begin and end in the middle of tokens, at their ends, and across several
  // tokens.
  for (size_t begin = 1; begin < 24; begin += 5) {
    const std::string stop = whole.substr(begin, 6);
    EXPECT_EQ(text_of(kDemo + kPromptFlags + "--stop " + quoted(stop)),
              whole.substr(0, whole.find(stop)) + "\n");
  }
  const std::string first = whole.substr(9, 4), second = whole.substr(20, 4);
  EXPECT_EQ(text_of(kDemo + kPromptFlags + "--stop " + quoted(second) + " --stop " + quoted(first)),
            whole.substr(0, std::min(whole.find(first), whole.find(second))) + "\n");
  EXPECT_EQ(text_of(kDemo + kPromptFlags + "--stop '[a,b]' --stop zebra"), whole);
  expect(neuronmm("generate " + kDemo + kPromptFlags + "--stop ''"), 2, {"--stop", "not empty"});
}

TEST_F(GenerateCommand, LogprobsAreOneLinePerToken) {
  const std::string messages = messages_of(kDemo + kPromptFlags + "--logprobs 2");
  const std::regex line(
      R"re(logprob ".*" \((\d+)\) -\d+\.\d{4} of ".*" \((\d+)\) .*, ".*" \(\d+\) .*)re");
  int lines = 0;
  std::istringstream stream(messages);
  for (std::string text; std::getline(stream, text);) {
    std::smatch match;
    if (!std::regex_match(text, match, line)) continue;
    EXPECT_EQ(match[1], match[2]) << text;  // greedy decoding takes the most likely token
    ++lines;
  }
  EXPECT_EQ(lines, 24) << messages;
  EXPECT_EQ(text_of(kDemo + kPromptFlags + "--logprobs 0"), text_of(kDemo + kPromptFlags));
}

TEST_F(GenerateCommand, BiasesAndPenaltiesChangeTheText) {
  const std::string plain = text_of(kDemo + kPromptFlags);
  const std::vector<std::string> ids = ids_of(kDemo + kPromptFlags);
  ASSERT_EQ(ids.size(), 24u);
  const auto biased = ids_of(kDemo + kPromptFlags + "--logit-bias " + ids[0] + "=-100");
  EXPECT_EQ(std::ranges::count(biased, ids[0]), 0);
  EXPECT_FALSE(biased.empty());
  EXPECT_NE(text_of(kDemo + kPromptFlags + "--presence-penalty 2 --frequency-penalty 2"), plain);
  for (const std::string bad : {"7", "=1", "x=1", "7=", "7=nan", "7=inf", "-1=2", "7=1x"})
    expect(neuronmm("generate " + kDemo + " x --logit-bias " + bad), 2, {"ID=BIAS"});
  expect(neuronmm("generate " + kDemo + " x --logit-bias 2048=1"), 1, {"token 2048", "2047"});
  expect(neuronmm("generate " + kDemo + " x --presence-penalty 2.5"), 2, {"--presence-penalty"});
  expect(neuronmm("generate " + kDemo + " x --min-p 2"), 2, {"--min-p"});
  expect(neuronmm("generate " + kDemo + " x --logprobs -1"), 2, {"--logprobs"});
  expect(neuronmm("generate " + kDemo + " x --greedy --temperature 1"), 2, {"--greedy"});
}

}  // namespace
}  // namespace neuronmm::apps
