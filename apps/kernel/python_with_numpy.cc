#include "kernel/python_with_numpy.h"

#include <algorithm>
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
// The variable by which the start script of a wheel names the Python that it was installed for.
constexpr const char* kOtherPython = "NEURONMM_PYTHON";
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

// Remembers that the first Python on the path cannot run kernels, but that another one did.
class Memory {
 public:
  explicit Memory(const fs::path& cache) : file_(cache.empty() ? cache : cache / "python3") {}

  bool passes_over(const std::string& on_path) const {
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

// Returns the absolute paths of the Pythons to try, in this order.
std::vector<std::string> candidates(const std::string& on_path, bool path_last) {
  const char* const other = std::getenv(kOtherPython);
  std::vector<std::string> all = {on_path, other == nullptr ? "" : other, kSystemPython};
  if (path_last) std::ranges::rotate(all, all.begin() + 1);
  std::erase_if(all, [](const std::string& python) { return !python.starts_with('/'); });
  return all;
}

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
  const bool passed_over = memory.passes_over(on_path);
  for (const std::string& python : candidates(on_path, passed_over)) {
    NMM_ASSIGN(ChildResult result, run_child({.program = python,
                                              .arguments = arguments,
                                              .environment = variables,
                                              .stream = STDERR_FILENO}));
    if (result.missing) continue;
    if (WIFEXITED(result.status) && WEXITSTATUS(result.status) == kCannotRunKernels) continue;
    if (python != on_path && !passed_over) memory.store(on_path);
    return result;
  }
  return fail(
      "expected a python3 of version 3.11 or later with NumPy in an absolute folder of PATH, found "
      "none: apt-get install python3-numpy, or pip install numpy in a virtual environment");
}

}  // namespace neuronmm::apps
