#include "kernel/python_with_numpy.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "search_path.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemPython = "/usr/bin/python3";
// After this time the python3 on the path is tried again, since NumPy may have been installed.
constexpr std::chrono::hours kRemembered{24};

// Returns the folder for what is kept between runs, or an empty path if there is none. Python
// trusts compiled files, so the folder must be this user's own and nobody else may write to it.
fs::path cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && *cache == '/') {
    folder = fs::path(cache) / "neuronmm/nki";
  } else if (home != nullptr && *home == '/') {
    folder = fs::path(home) / ".cache/neuronmm/nki";
  } else {
    return {};
  }
  std::error_code error;
  fs::create_directories(folder, error);
  struct stat status = {};
  if (error || stat(folder.c_str(), &status) != 0) return {};
  const bool is_own = status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return is_own ? folder : fs::path();
}

// Remembers which Python ran instead of the first one on the path, which cannot run kernels.
class Memory {
 public:
  explicit Memory(const fs::path& cache) : file_(cache.empty() ? cache : cache / "python3") {}

  bool prefers_system_python(const std::string& on_path) const {
    std::error_code error;
    const auto written = fs::last_write_time(file_, error);
    if (error || fs::file_time_type::clock::now() - written > kRemembered) return false;
    std::string line;
    std::ifstream stream(file_);
    return std::getline(stream, line) && line == on_path;
  }
  void store(const std::string& on_path) const {
    if (!file_.empty()) std::ofstream(file_) << on_path << "\n";
  }

 private:
  fs::path file_;
};

}  // namespace

Result<ChildResult> run_python(
    const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment) {
  const fs::path cache = cache_folder();
  const Memory memory(cache);
  auto variables = environment;
  if (cache.empty()) {
    variables.emplace_back("PYTHONDONTWRITEBYTECODE", "1");
  } else {
    variables.emplace_back("PYTHONPYCACHEPREFIX", cache / "compiled");
    // Without compiled files of its own folder, each start would compile NumPy again.
    variables.emplace_back("PYTHONDONTWRITEBYTECODE", "");
  }
  const std::string on_path = find_program("python3", safe_path_variable());
  const bool system_first = memory.prefers_system_python(on_path);
  std::vector<std::string> candidates = {on_path, kSystemPython};
  if (system_first) std::swap(candidates[0], candidates[1]);
  for (const std::string& python : candidates) {
    if (python.empty()) continue;
    NMM_ASSIGN(ChildResult result, run_child({.program = python,
                                              .arguments = arguments,
                                              .environment = variables,
                                              .stream = STDERR_FILENO}));
    if (result.missing) continue;
    if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == kCannotRunKernels) continue;
    if (python == kSystemPython && on_path != kSystemPython && !system_first) memory.store(on_path);
    return result;
  }
  return fail(
      "expected a python3 of version 3.11 or later with NumPy in an absolute folder of PATH, found "
      "none: apt-get install python3-numpy");
}

}  // namespace neuronmm::apps
