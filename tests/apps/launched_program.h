#pragma once
// Runs the program under mpirun in the background, so that a test can stop or kill one of its
// processes. All tests in this folder that need mpirun include it.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parallel/several_processes.h"
#include "run_program.h"

namespace neuronmm::apps {

// Returns why such tests cannot run here, or an empty text if they can.
inline std::string why_no_launch() {
  if (const std::string why = parallel::why_no_mpirun(); !why.empty()) return why;
  const std::string libraries = run_shell("ldd '" + program_path().string() + "' 2>&1").output;
  return libraries.find("libmpi") == std::string::npos
             ? "this build has no MPI: configure it again after tools/install_dependencies.sh build"
             : "";
}

// Calls `condition` until it returns true, and returns whether it did so within `time`. The time is
// long enough for a busy machine.
inline bool wait_until(std::chrono::seconds time, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// A run of the program on several processes.
class LaunchedProgram {
 public:
  // Starts the run. It works in a new folder within `folder`, the folder of the test. The new
  // folder gets the output, the process ids and the exit code of process 0. The shell of process 0
  // ignores SIGTERM, so process 0 decides itself how long it outlives the launcher's signal.
  LaunchedProgram(const std::string& folder, int processes, const std::string& launcher_flags,
                  const std::string& arguments)
      : folder_(new_folder(folder)), processes_(processes) {
    const std::string script = folder_ + "/start.sh";
    std::ofstream(script) << "cd " << folder_ << "\nrank=$OMPI_COMM_WORLD_RANK\n"
                          << "[ $rank = 0 ] || { echo $$ >pid.new.$rank; mv pid.new.$rank "
                             "pid.$rank; exec '"
                          << program_path().string() << "' " << arguments << "; }\n"
                          << "trap '' TERM\n'" << program_path().string() << "' " << arguments
                          << " &\necho $! >pid.new.0; mv pid.new.0 pid.0; wait $!; code=$?\n"
                          << "echo $code >code; exit $code\n";
    const std::string command = "exec " + parallel::mpirun(processes) + launcher_flags + " sh " +
                                script + " >" + output_file() + " 2>&1 </dev/null";
    launcher_ = fork();
    if (launcher_ == 0) {
      setpgid(0, 0);  // a group of its own, which the destructor can kill
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
  }
  // Kills the processes that a test leaves behind, and the launcher if it does not end by itself.
  ~LaunchedProgram() {
    for (int i = 0; i < processes_; ++i) {
      if (std::filesystem::exists(pid_file(i))) ::kill(pid(i), SIGKILL);
    }
    if (exit_code_) return;
    ::kill(launcher_, SIGTERM);
    if (wait_for_exit()) return;
    ::kill(-launcher_, SIGKILL);
    waitpid(launcher_, nullptr, 0);
  }
  LaunchedProgram(const LaunchedProgram&) = delete;
  LaunchedProgram& operator=(const LaunchedProgram&) = delete;

  // Returns whether the output contains the text within a minute.
  bool eventually_prints(const std::string& text) const {
    return wait_until(std::chrono::seconds(60),
                      [&] { return output().find(text) != std::string::npos; });
  }
  std::string output() const { return read(output_file()); }
  const std::string& folder() const { return folder_; }  // the working folder of the run
  // Returns the port that a server listens on, or 0.
  int port() const {
    const std::string text = output(), before = "listening on http://127.0.0.1:";
    const size_t at = text.find(before);
    return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + before.size());
  }

  void signal(int process, int number) const { ::kill(pid(process), number); }
  void signal_launcher(int number) const { ::kill(launcher_, number); }

  // Waits until mpirun ends and returns its exit code, or nothing if it does not end in time.
  std::optional<int> wait_for_exit(std::chrono::seconds time = std::chrono::seconds(30)) {
    int status = 0;
    const bool exited =
        wait_until(time, [&] { return waitpid(launcher_, &status, WNOHANG) == launcher_; });
    if (exited) exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return exit_code_;
  }
  // Returns the exit code of process 0, which may differ from mpirun's, or -1 if there is none yet.
  int exit_code_of_first() const {
    const std::string text = read(folder_ + "/code");
    return text.empty() ? -1 : std::atoi(text.c_str());
  }
  // Returns whether all processes end within ten seconds.
  bool all_processes_end() const {
    return wait_until(std::chrono::seconds(10), [&] {
      for (int i = 0; i < processes_; ++i) {
        if (std::filesystem::exists(pid_file(i)) && is_running(pid(i))) return false;
      }
      return true;
    });
  }

 private:
  static std::string new_folder(const std::string& parent) {
    static int count = 0;
    const std::string folder = fmt::format("{}/launched{}", parent, ++count);
    std::filesystem::create_directories(folder);
    return folder;
  }
  std::string output_file() const { return folder_ + "/launched.out"; }
  std::string pid_file(int process) const { return fmt::format("{}/pid.{}", folder_, process); }
  pid_t pid(int process) const { return std::atoi(read(pid_file(process)).c_str()); }
  // A zombie ("Z") has ended, although no process has waited for it.
  static bool is_running(pid_t pid) {
    const std::string status = read(fmt::format("/proc/{}/stat", pid));
    const size_t name_end = status.rfind(')');
    return name_end != std::string::npos && status.substr(name_end + 2, 1) != "Z";
  }

  const std::string folder_;
  const int processes_;
  pid_t launcher_ = 0;
  std::optional<int> exit_code_;
};

}  // namespace neuronmm::apps
