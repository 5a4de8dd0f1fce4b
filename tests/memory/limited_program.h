#pragma once
// Runs the program with little memory, and checks how it ends. All tests in this folder include
// this file.

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/io_test.h"
#include "places.h"

namespace neuronmm::memory {

namespace fs = std::filesystem;
using io::get;

// How a run is started.
struct Launch {
  std::string arguments;  // words without blanks
  fs::path folder;        // the working folder, which also gets the file "log"
  rlim_t address_space = RLIM_INFINITY;
  std::vector<std::pair<std::string, std::string>> environment = {};
  fs::path control_group = {};  // the folder of a control group that the run joins
};

// How a run has ended.
struct Ended {
  int signal = 0;  // a run that takes too long is ended by SIGKILL
  int exit_code = -1;
  std::string output;  // both streams
};

inline pid_t start(const Launch& launch) {
  std::istringstream stream(launch.arguments);
  std::vector<std::string> words = {program_path().string()};
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = launch.folder / "log";
  // The log is emptied first, so that nobody reads that of the program before.
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const pid_t child = fork();
  if (child != 0) {
    close(output);
    return child;
  }
  const int input = open("/dev/null", O_RDONLY);
  if (chdir(launch.folder.c_str()) != 0) _exit(126);
  dup2(input, 0);
  dup2(output, 1);
  dup2(output, 2);
  if (!launch.control_group.empty()) {
    std::ofstream group(launch.control_group / "cgroup.procs");
    if (!(group << 0 << std::flush)) _exit(125);
  }
  setenv("XDG_CACHE_HOME", launch.folder.c_str(), 1);
  for (const auto& [name, value] : launch.environment) setenv(name.c_str(), value.c_str(), 1);
  const rlimit limit = {launch.address_space, launch.address_space};
  setrlimit(RLIMIT_AS, &limit);
  execv(argv[0], argv.data());
  _exit(127);
}

inline Ended wait_for(pid_t child, const Launch& launch, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= end) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Ended ended;
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  ended.output = get(launch.folder / "log");
  return ended;
}

inline Ended run(const Launch& launch) {
  return wait_for(start(launch), launch, std::chrono::seconds(120));
}

// Returns the smallest address space in bytes, up to 2 %, in which the program can say its version.
// With less, the system cannot even load it.
inline rlim_t least_address_space(const fs::path& folder) {
  rlim_t low = rlim_t{4} << 20, high = rlim_t{1} << 30;
  while (high - low > high / 50) {
    const rlim_t middle = (low + high) / 2;
    const bool runs = run({"--version", folder, middle}).exit_code == 0;
    (runs ? high : low) = middle;
  }
  return high;
}

inline int64_t messages_in(const std::string& output) {
  std::istringstream lines(output);
  int64_t messages = 0;
  for (std::string line; std::getline(lines, line);)
    messages += line.starts_with("neuronmm") ? 1 : 0;
  return messages;
}

// Expects exit code 0, or 1 with one message.
inline void expect_orderly_end(const Ended& ended, const std::string& where) {
  EXPECT_EQ(ended.signal, 0) << where << "\n" << ended.output;
  EXPECT_TRUE(ended.exit_code == 0 || ended.exit_code == 1)
      << where << ": exit code " << ended.exit_code << "\n"
      << ended.output;
  if (ended.exit_code == 1) {
    EXPECT_EQ(messages_in(ended.output), 1) << where << "\n" << ended.output;
  }
}

// Whether `./test.sh --slow` runs the tests. Otherwise they run a sample.
inline bool run_all() { return std::getenv("NEURONMM_FAULTS") != nullptr; }

// A command line that is run with little memory, in a folder of its own.
struct Command {
  const char* name;
  // MODEL stands for a model folder, CHAT for one with a chat template, and SMALL for a compressed
  // model.
  const char* arguments;
  const char* output = "";
};

inline std::ostream& operator<<(std::ostream& stream, const Command& command) {
  return stream << command.name;
}

// Commands that run on one layer of the bundled model.
inline const Command kCommands[] = {
    {"Generate", "generate MODEL Once --max-new-tokens 8"},
    {"Chat", "chat CHAT --max-new-tokens 8"},
    {"Perplexity", "perplexity MODEL MODEL/evaluation.txt --context 64 --json out", "out"},
    {"Tokenize", "tokenize MODEL hello"},
    {"Inspect", "inspect MODEL"},
    {"Check", "check MODEL --reference MODEL --prompt Once --new-tokens 4"},
    {"Bench", "bench MODEL --prompt-tokens 8 --new-tokens 4 --runs 1 --json out", "out"},
    {"CompressSvd", "compress MODEL -o out --ratio 0.5 --block 64 --method svd", "out"},
    {"CompressWhitened",
     "compress MODEL -o out --form uv --ratio 0.5 --block 64 --method whitened --calibration "
     "MODEL/calibration.txt --calibration-tokens 400",
     "out"},
    {"Quantize",
     "quantize MODEL -o out --bits 4 --calibration MODEL/calibration.txt --calibration-tokens 400",
     "out"},
    {"Synthesize", "synthesize --config MODEL/config.json -o out", "out"},
    {"Export", "export SMALL --target vllm-neuron -o out --prompt-tokens 32 --new-tokens 2", "out"},
    {"Simulate", "simulate xuv --shape 128,128,128,128 --json out", "out"},
    {"Tune", "tune xuv --shape 128,128,128,128 --json out", "out"},
    {"Emit", "emit xuv --shape 128,128,128,128 -o out", "out"},
    {"Kernels", "kernels"},
    {"Finetune",
     "finetune SMALL --data MODEL/calibration.txt -o out --cutoff 32 --batch 2 --tokens 64 "
     "--threads 2",
     "out"},
};

// Runs a command in a folder that a test checks.
class CommandWithLittleMemory : public testing::TestWithParam<Command> {
 protected:
  Launch launch() const {
    std::string arguments = GetParam().arguments;
    const auto replace = [&](const std::string& word, const fs::path& path) {
      for (size_t at; (at = arguments.find(word)) != std::string::npos;)
        arguments.replace(at, word.size(), path.string());
    };
    replace("MODEL", one_layer_model());
    replace("CHAT", models_ / "chat");
    replace("SMALL", models_ / "small");
    return {arguments, root_.path(), RLIM_INFINITY, {{"OMP_NUM_THREADS", "2"}}};
  }

  void SetUp() override {
    const std::string arguments = GetParam().arguments;
    if (arguments.find("CHAT") != std::string::npos) {
      fs::copy(one_layer_model(), models_ / "chat");
      io::put(models_ / "chat/chat_template.jinja",
              "{% for message in messages %}{{ message.content }}{% endfor %}");
    }
    if (arguments.find("SMALL") == std::string::npos) return;
    const std::string compress =
        fmt::format("compress {} -o {} --ratio 0.5 --block 64 --method svd",
                    one_layer_model().string(), (models_ / "small").string());
    ASSERT_EQ(run({compress, models_.path()}).exit_code, 0) << get(models_ / "log");
  }

  // Expects an orderly end, and no output unless the exit code is 0. Work that a later run resumes
  // may be left.
  void expect_whole_or_nothing(const Ended& ended, const std::string& where) {
    expect_orderly_end(ended, where);
    const std::string output = GetParam().output;
    if (output.empty()) return;
    EXPECT_EQ(fs::exists(root_ / output), ended.exit_code == 0) << where << "\n" << ended.output;
    for (const auto& entry : fs::directory_iterator(root_.path())) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(name == "log" || name == output || name == "neuronmm" ||
                  name == output + ".partial")
          << where << " left " << name;
    }
    fs::remove_all(root_ / output);
  }

  const io::TemporaryFolder root_, models_;
};

inline std::string name_of(const testing::TestParamInfo<Command>& info) { return info.param.name; }

}  // namespace neuronmm::memory
