#pragma once
// A program in Python that stays open while tests ask it. It reads one line of JSON per request and
// answers with one line. NumPy takes a quarter of a second to load, so all tests of a process share
// one program.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace neuronmm {

// Returns a Python that has NumPy.
inline std::optional<std::string> python_with_numpy() {
  static const std::optional<std::string> kFound = []() -> std::optional<std::string> {
    for (const char* candidate : {"/usr/bin/python3", "python3"}) {
      const std::string probe = fmt::format("{} -c 'import numpy' >/dev/null 2>&1", candidate);
      if (std::system(probe.c_str()) == 0) return candidate;
    }
    return std::nullopt;
  }();
  return kFound;
}

class PythonProgram {
 public:
  // `command` is a command of the shell. A named pipe carries the answers.
  explicit PythonProgram(const std::string& command)
      : pipe_(std::filesystem::temp_directory_path() /
              fmt::format("neuronmm-answers-{}", getpid())) {
    std::filesystem::remove(pipe_);
    if (mkfifo(pipe_.c_str(), 0600) != 0) return;
    requests_ = popen(fmt::format("{} > '{}'", command, pipe_.string()).c_str(), "w");
    answers_.open(pipe_);
    std::filesystem::remove(pipe_);
  }
  PythonProgram(const PythonProgram&) = delete;
  PythonProgram& operator=(const PythonProgram&) = delete;
  ~PythonProgram() {
    if (requests_ != nullptr) pclose(requests_);
  }

  // Returns the answer, or null if the program has ended.
  nlohmann::json ask(const nlohmann::json& request) {
    if (requests_ == nullptr) return nullptr;
    const std::string line = request.dump() + "\n";
    std::fwrite(line.data(), 1, line.size(), requests_);
    std::fflush(requests_);
    std::string answer;
    return std::getline(answers_, answer) ? nlohmann::json::parse(answer) : nlohmann::json();
  }

 private:
  std::filesystem::path pipe_;
  std::FILE* requests_ = nullptr;
  std::ifstream answers_;
};

}  // namespace neuronmm
