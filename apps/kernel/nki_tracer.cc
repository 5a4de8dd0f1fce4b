#include "kernel/nki_tracer.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

// Beside the program where it is installed, or in the source tree that it was built in.
Result<fs::path> package_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe: cannot be read: {}", error.message());
  const fs::path beside = self.parent_path() / "../share/neuronmm/python";
  for (const fs::path& folder : {beside, self.parent_path() / "../../python"}) {
    if (fs::exists(folder / "nki/run.py", error)) return fs::weakly_canonical(folder);
  }
  return fail("the Python package nki is missing: expected it in {}", beside.string());
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& string : strings) out.push_back(string.data());
  out.push_back(nullptr);
  return out;
}

// The package first, so that it stands for the vendor's where that is installed too.
std::vector<std::string> environment(const fs::path& package) {
  std::vector<std::string> variables;
  std::string path = "PYTHONPATH=" + package.string();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("PYTHONPATH=")) {
      path += fmt::format(":{}", text.substr(strlen("PYTHONPATH=")));
    } else {
      variables.emplace_back(text);
    }
  }
  variables.push_back(std::move(path));
  variables.emplace_back("PYTHONDONTWRITEBYTECODE=1");
  return variables;
}

// The exit status of a program, as waitpid() gives it; -1 where it cannot be started. `quiet`: what
// it says on standard error is of no interest.
int run_program(std::vector<std::string> command, std::vector<std::string> variables, bool quiet) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Standard output is for this program's own report.
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (quiet) posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 0, 0);
  pid_t id = 0;
  const int error = posix_spawnp(&id, command[0].c_str(), &actions, nullptr,
                                 pointers(command).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  int status = 0;
  while (waitpid(id, &status, 0) < 0 && errno == EINTR) {
    if (interrupted()) kill(id, SIGTERM);
  }
  return status;
}

// The first python3 that has NumPy: the one of the path, or the system's.
Result<std::string> find_python(const std::vector<std::string>& variables) {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (run_program({python, "-c", "import numpy"}, variables, true) == 0)
      return std::string(python);
  }
  return fail("expected a python3 with NumPy (Debian's python3-numpy), found none");
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::make() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "neuronmm-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return fail("{}: no temporary folder can be made: {}", path, strerror(errno));
  }
  return TemporaryFolder(path);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Status run_tracer(const TracerCall& call) {
  NMM_ASSIGN(const fs::path package, package_folder());
  const std::vector<std::string> variables = environment(package);
  NMM_ASSIGN(const std::string python, find_python(variables));
  std::vector<std::string> command = {python, "-m", "nki.run", call.kernel};
  command.insert(command.end(), call.flags.begin(), call.flags.end());
  command.insert(command.end(), {"--trace", call.trace.string()});
  const int status = run_program(command, variables, false);
  if (interrupted()) return interrupted_error("nothing is kept");
  if (status == 0) return {};
  if (status > 0 && WIFSIGNALED(status)) {
    return fail("{}: the run of the kernel was ended by signal {} ({})", call.kernel,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fail("{}: the kernel cannot be traced (see above)", call.kernel);
}

}  // namespace neuronmm::apps
