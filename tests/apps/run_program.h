#pragma once
// Runs the program as a user does, and checks its exit code and its output. All tests of commands
// include this file.

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "places.h"

namespace neuronmm::apps {

inline const std::string kDemo = source_dir().string() + "/models/demo";
// This is the same model with its first layer alone. Commands take a quarter of the time with it.
inline const std::string kOneLayer = one_layer_model().string();

// The result of a run.
struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr together
};

// Runs a line in the shell and returns its exit code and standard output.
inline Outcome run_shell(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// Runs the program. `wrapper` is a command in front of it, such as mpirun or timeout, and
// `errors_to` is where the shell redirects standard error.
inline Outcome neuronmm(const std::string& arguments, const std::string& wrapper = "",
                        const std::string& errors_to = "&1") {
  return run_shell(wrapper + " '" + program_path().string() + "' " + arguments + " 2>" + errors_to +
                   " </dev/null");
}

// Returns the content of a file.
inline std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Expects the exit code, and each of the words somewhere in the output.
inline void expect(const Outcome& outcome, int exit_code,
                   std::initializer_list<const char*> words) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
  for (const char* word : words) {
    EXPECT_NE(outcome.output.find(word), std::string::npos) << "expected \"" << word << "\" in:\n"
                                                            << outcome.output;
  }
}

// Gives each test a folder of its own and another for the program's cache. Both are removed after
// the test.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("neuronmm-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    setenv("XDG_CACHE_HOME", cache().c_str(), 1);  // hides the user's tuned tilings
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::remove_all(cache());
  }
  std::filesystem::path cache() const { return folder_.string() + "-cache"; }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }

  std::filesystem::path folder_;
};

}  // namespace neuronmm::apps
