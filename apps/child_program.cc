#include "child_program.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "search_path.h"

namespace neuronmm::apps {
namespace {

// A program that prints messages may print without end. Its last messages are kept.
constexpr size_t kMostMessageBytes = 1 << 20;
constexpr int kPollMs = 50;  // the longest delay before an interrupt is passed on

// Returns the variables of the child as NAME=VALUE strings. A variable that `child` names replaces
// the variable of this process.
std::vector<std::string> environment_of(const ChildProgram& child) {
  auto changes = child.environment;
  changes.emplace_back("PATH", safe_path_variable());
  std::vector<std::string> variables;
  for (const auto& [name, value] : changes) {
    variables.push_back(fmt::format("{}={}", name, value));
  }
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    bool replaced = false;
    for (const auto& [name, value] : changes) {
      replaced |= text.starts_with(name) && text.substr(name.size()).starts_with('=');
    }
    if (!replaced) variables.emplace_back(text);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the program with `pipe_end` as its stream. Returns 0 or the errno value of the failure.
int start(const ChildProgram& child, int pipe_end, pid_t& id) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (child.stream == STDERR_FILENO) {
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, pipe_end, child.stream);
  std::vector<std::string> arguments = {child.program}, variables = environment_of(child);
  arguments.insert(arguments.end(), child.arguments.begin(), child.arguments.end());
  const int error = posix_spawn(&id, child.program.c_str(), &actions, nullptr,
                                pointers_to(arguments).data(), pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

std::string read_all(int pipe_end, pid_t id, size_t most) {
  std::string output;
  bool passed_on = false;
  while (true) {
    if (interrupted() && !passed_on) passed_on = kill(id, SIGTERM) == 0;
    pollfd waiting = {.fd = pipe_end, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, kPollMs) <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(pipe_end, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return output;
    output.append(buffer.data(), static_cast<size_t>(n));
    if (output.size() > 2 * most) output.erase(0, output.size() - most);
  }
}

}  // namespace

Result<ChildResult> run_child(const ChildProgram& child) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail("pipe: {}", strerror(errno));
  pid_t id = 0;
  const int error = start(child, ends[1], id);
  close(ends[1]);
  ChildResult result;
  if (error != 0) {
    close(ends[0]);
    result.missing = error == ENOENT;
    if (result.missing) return result;
    return fail("{}: cannot be run: {}", child.program, strerror(error));
  }
  const size_t most = child.stream == STDERR_FILENO ? kMostMessageBytes : SIZE_MAX / 2;
  result.output = read_all(ends[0], id, most);
  close(ends[0]);
  while (waitpid(id, &result.status, 0) < 0 && errno == EINTR) {
  }
  return result;
}

}  // namespace neuronmm::apps
