// Tests that no fault damages the files of a command. Every command that writes is run many times.
// In each run one system call that opens, writes, syncs, renames, makes or removes something is
// disturbed (fault_injector.cc). The program is killed there, or the call fails with one of three
// errors. The following must hold after each fault:
//
// - The output is absent, unchanged or complete. If the exit code is 0, the output is complete.
// - The same command, run again, produces the files of an undisturbed run, byte for byte. If the
//   output was complete already, the command says so and changes nothing.
// - No other file has changed, and no temporary file is left over. The program never ends by a
//   signal, except where it was killed.
//
// With NEURONMM_FAULTS=all in the environment every call is disturbed in all these ways. Otherwise
// a few calls of each command are disturbed, by a kill and by one of the errors. Each day chooses
// other calls.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gguf/small_gguf.h"
#include "io/io_test.h"
#include "places.h"

extern char** environ;

namespace neuronmm {
namespace {

namespace fs = std::filesystem;
using io::get;
using io::put;

// The number of calls of each command that are disturbed, unless all of them are.
constexpr int kSampledCalls = 3;

struct Command {
  const char* name;
  const char* arguments;   // relative to the folder run/ (see SetUp and prepare_run)
  const char* output;      // the file or folder that the command makes in run/
  bool replaces = false;   // whether run/out is a model folder that the command may replace
  bool refuses = false;    // whether the command refuses to replace a file (folders are never)
  bool same_bytes = true;  // false if the output holds times
  const char* input = "";  // what the command reads from standard input
};

const Command kCommands[] = {
    {.name = "SynthesizeFolder",
     .arguments = "synthesize --config ../in/config.json -o out",
     .output = "out"},
    {.name = "SynthesizeReplaces",
     .arguments = "synthesize --config ../in/config.json -o out --force",
     .output = "out",
     .replaces = true},
    {.name = "CompressSvd",
     .arguments = "compress ../in/model -o out --ratio 0.5 --block 8 --method svd",
     .output = "out"},
    {.name = "CompressWhitened",
     .arguments = "compress ../in/model -o out --form uv --ratio 0.5 --block 8 --calibration "
                  "../in/text.txt --calibration-tokens 200",
     .output = "out"},
    {.name = "CompressMixed",
     .arguments =
         "compress ../in/model -o out --form mixed --method whitened --ratio 0.4 --block 8 "
         "--calibration ../in/text.txt --calibration-tokens 200",
     .output = "out"},
    {.name = "CompressPivotedInt8",
     .arguments = "compress ../in/model -o out --form pivoted --method whitened "
                  "--ratio 0.4 --block 8 --bits 8 --calibration ../in/text.txt "
                  "--calibration-tokens 200",
     .output = "out"},
    {.name = "CompressSavesStatistics",
     .arguments =
         "compress ../in/model -o out --form mixed --method whitened --ratio 0.4 --block 8 "
         "--calibration ../in/text.txt --calibration-tokens 200 --statistics statistics",
     .output = "out"},
    {.name = "CompressUvMeasured",
     .arguments =
         "compress ../in/model -o out --ratio 0.25 --block 4 --form uv --allocate measured "
         "--calibration ../in/text.txt --calibration-tokens 200",
     .output = "out"},
    {.name = "CompressInt4Replaces",
     .arguments = "compress ../in/model -o out --ratio 0.5 --block 8 --method svd --bits 4 --force",
     .output = "out",
     .replaces = true},
    {.name = "Import", .arguments = "import ../in/m.gguf -o out", .output = "out"},
    {.name = "ImportRounds", .arguments = "import ../in/m.gguf -o out --bits 4", .output = "out"},
    {.name = "Quantize", .arguments = "quantize ../in/small -o out", .output = "out"},
    {.name = "QuantizeByText",
     .arguments = "quantize ../in/model -o out --bits 4 --calibration ../in/text.txt "
                  "--calibration-tokens 200 --statistics statistics",
     .output = "out"},
    {.name = "Export",
     .arguments = "export ../in/small --target vllm-neuron -o out --prompt Hi --prompt-tokens 32 "
                  "--new-tokens 2",
     .output = "out"},
    {.name = "Finetune",
     .arguments =
         "finetune ../in/small -o out --data ../in/text.txt --epochs 1 --batch 4 --cutoff 32",
     .output = "out"},
    {.name = "Tune",
     .arguments = "tune xuv --shape 128,128,128,128 --cache cache/tilings.json --json o.json",
     .output = "o.json"},
    {.name = "Emit",
     .arguments = "emit xuv --shape 128,128,128,128 -o xuv.py",
     .output = "xuv.py",
     .refuses = true},
    {.name = "SimulateJson",
     .arguments = "simulate xuv --shape 128,128,128,128 --json o.json",
     .output = "o.json"},
    {.name = "PerplexityJson",
     .arguments = "perplexity ../in/model ../in/text.txt --json o.json",
     .output = "o.json",
     .same_bytes = false},
    {.name = "CompareHtml",
     .arguments = "compare ../in/model ../in/small --data ../in --tasks ptb --limit 1 "
                  "--prompt-tokens 4 --new-tokens 2 --runs 1 --html o.html",
     .output = "o.html",
     .same_bytes = false},
    {.name = "BenchJson",
     .arguments = "bench ../in/model --prompt-tokens 4 --new-tokens 2 --runs 1 --json o.json",
     .output = "o.json",
     .same_bytes = false},
    {.name = "ChatSave",
     .arguments = "chat ../in/model --greedy --max-new-tokens 4",
     .output = "o.json",
     .input = "One day\n/save o.json\n"},
};

struct Outcome {
  int signal = 0;
  int exit_code = 0;
  std::string output;
  long calls = 0;
  std::string failed;  // the name of the call that failed
};

// Contents of files by path relative to the root of the tree. Folders end in "/".
using Tree = std::map<std::string, std::string>;

Tree tree_of(const fs::path& root) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = fs::relative(entry.path(), root);
    if (entry.is_directory()) {
      tree[name + "/"];
    } else {
      tree[name] = get(entry.path());
    }
  }
  return tree;
}

// Returns the faults of a call: 0 for a kill, and errors.
std::vector<int> codes_at(long call, bool all) {
  const std::vector<int> errors = {ENOSPC, EIO, EACCES};
  if (!all) return {0, errors[static_cast<size_t>(call) % errors.size()]};
  return {0, errors[0], errors[1], errors[2]};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

class FaultSweep : public testing::TestWithParam<Command> {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "in");
    put(root_ / "in/config.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
      "num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 256,
      "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": true,
      "torch_dtype": "bfloat16"})");
    put(root_ / "in/m.gguf", gguf::SmallModel().builder.bytes());
    const fs::path demo = source_dir() / "models/demo";
    put(root_ / "in/text.txt", get(demo / "evaluation.txt").substr(0, 4000));
    put(root_ / "in/ptb.txt", get(demo / "evaluation.txt").substr(0, 2000));
    prepare_run(false);
    run("synthesize --config ../in/config.json -o ../in/model --seed 1");
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      if (fs::exists(demo / file)) fs::copy_file(demo / file, root_ / "in/model" / file);
    }
    put(root_ / "in/model/chat_template.jinja", "{{ messages | map(attribute='content') | join }}");
    run("compress ../in/model -o ../in/small --ratio 0.25 --block 8 --method svd");
    run("synthesize --config ../in/config.json -o ../in/old --seed 2");
    before_ = tree_of(root_ / "in");
    ASSERT_TRUE(fs::exists(root_ / "in/small/model.safetensors"));
  }

  // Prepares run/ as every run of a command finds it. The folder holds files of somebody else whose
  // names resemble those of the program's files.
  void prepare_run(bool replaces) {
    fs::remove_all(root_ / "run");
    fs::create_directories(root_ / "run");
    for (const char* name : {"thesis.tex", "o.json.tmp", "out.tmp", "out.partial.txt"}) {
      put(root_ / "run" / name, name);
    }
    if (replaces) fs::copy(root_ / "in/old", root_ / "run/out");
  }

  Outcome run(const std::string& arguments, long fault_at = 0, int code = 0) {
    const std::string report = root_ / "report", log = root_ / "log", typed = root_ / "typed";
    put(typed, GetParam().input);
    fs::remove(report);
    std::vector<std::string> variables = {"LD_PRELOAD=" NEURONMM_FAULT_INJECTOR,
                                          "NEURONMM_FAULT_FOLDER=" + (root_ / "run").string() + "/",
                                          "NEURONMM_FAULT_REPORT=" + report,
                                          fmt::format("NEURONMM_FAULT_AT={}", fault_at),
                                          fmt::format("NEURONMM_FAULT_ERRNO={}", code),
                                          "HOME=" + root_.path().string(),
                                          "OMP_NUM_THREADS=2"};
    if (fault_at == 0) variables.erase(variables.begin());   // not even preloaded
    if (fault_at < 0) variables[3] = "NEURONMM_FAULT_AT=0";  // only counts
    variables.push_back("SOURCE_DATE_EPOCH=0");              // all reports have the same date
    if (const char* path = std::getenv("PATH")) variables.push_back(std::string("PATH=") + path);
    std::vector<std::string> words = words_of(arguments);
    words.insert(words.begin(), program_path().string());
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, (root_ / "run").c_str());
    posix_spawn_file_actions_addopen(&actions, 0, typed.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child = 0;
    EXPECT_EQ(posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    Outcome outcome;
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.output = get(log);
    std::istringstream(get(report)) >> outcome.calls >> outcome.failed;
    return outcome;
  }

  // Returns the tree of run/ without contents that differ from run to run.
  Tree run_tree(const Command& command) const {
    Tree tree = tree_of(root_ / "run");
    if (!command.same_bytes && tree.contains(command.output)) tree[command.output] = "times";
    return tree;
  }

  // Returns the part of the tree that is the output.
  static Tree output_of(const Tree& tree, const std::string& name) {
    Tree output;
    for (const auto& [path, content] : tree) {
      if (path == name || path.starts_with(name + "/")) output[path] = content;
    }
    return output;
  }

  static std::string difference(const Tree& expected, const Tree& found) {
    std::string text;
    for (const auto& [path, content] : expected) {
      if (!found.contains(path)) text += " missing " + path;
      if (found.contains(path) && found.at(path) != content) text += " changed " + path;
    }
    for (const auto& [path, content] : found) {
      if (!expected.contains(path)) text += " left over " + path;
    }
    return text;
  }

  void expect_survived(const Command& command, const Outcome& faulted, bool killed,
                       const std::string& where) {
    EXPECT_EQ(faulted.signal, killed ? SIGKILL : 0) << where << faulted.output;
    EXPECT_TRUE(killed || faulted.exit_code == 0 || faulted.exit_code == 1)
        << where << faulted.output;
    const Tree tree = run_tree(command);
    const Tree output = output_of(tree, command.output);
    const bool complete = output == output_of(finished_, command.output);
    EXPECT_TRUE(complete || output == output_of(initial_, command.output))
        << where << "half an output:" << difference(output_of(finished_, command.output), output);
    EXPECT_TRUE(killed || faulted.exit_code != 0 || complete)
        << where << "exit code 0 without the output";
    for (const auto& [path, content] : initial_) {
      if (output_of(initial_, command.output).contains(path)) continue;
      EXPECT_TRUE(tree.contains(path) && tree.at(path) == content) << where << "foreign: " << path;
    }
    const Outcome again = run(command.arguments);
    const bool folder = finished_.contains(std::string(command.output) + "/");
    if (complete && (folder || command.refuses) && !command.replaces) {
      EXPECT_EQ(again.exit_code, 1) << where << again.output;
      EXPECT_NE(again.output.find("already exists"), std::string::npos) << where << again.output;
    } else {
      EXPECT_EQ(again.exit_code, 0) << where << "not resumable: " << again.output;
    }
    EXPECT_EQ(difference(finished_, run_tree(command)), "") << where;
    EXPECT_EQ(difference(before_, tree_of(root_ / "in")), "") << where;
  }

  const io::TemporaryFolder root_;
  // The trees of in/, of run/ at the start and of run/ after an undisturbed run.
  Tree before_, initial_, finished_;
};

TEST_P(FaultSweep, EveryFaultIsSurvived) {
  const Command& command = GetParam();
  if (std::string(command.name) == "Finetune" &&
      !fs::exists(program_path().parent_path() / "neuronmm-finetune")) {
    GTEST_SKIP() << "built without libtorch";
  }
  prepare_run(command.replaces);
  initial_ = run_tree(command);
  const Outcome undisturbed = run(command.arguments);
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
  finished_ = run_tree(command);
  prepare_run(command.replaces);
  const long calls = run(command.arguments, -1).calls;
  ASSERT_GT(calls, 3);
  EXPECT_EQ(difference(finished_, run_tree(command)), "") << "two undisturbed runs differ";

  const char* const asked = std::getenv("NEURONMM_FAULTS");
  const bool all = asked != nullptr && std::string(asked) == "all";
  const long step = all ? 1 : std::max(1L, calls / kSampledCalls);
  const long day = std::chrono::duration_cast<std::chrono::hours>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count() /
                   24;
  const long first = all ? 1 : 1 + day % step;
  long faults = 0;
  for (long call = first; call <= calls; call += step) {
    for (const int code : codes_at(call, all)) {
      prepare_run(command.replaces);
      const Outcome faulted = run(command.arguments, call, code);
      const std::string where =
          fmt::format("{} {} of {} ({}): ", code == 0 ? "killed at" : std::strerror(code), call,
                      calls, faulted.failed);
      expect_survived(command, faulted, code == 0, where);
      ++faults;
    }
  }
  fmt::print("{}: {} faults at {} calls\n", command.name, faults, calls);
}

INSTANTIATE_TEST_SUITE_P(Commands, FaultSweep, testing::ValuesIn(kCommands),
                         [](const auto& command) { return command.param.name; });

}  // namespace
}  // namespace neuronmm
