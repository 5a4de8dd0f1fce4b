#include "model/metric_program.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "io/text_file.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 50;  // until an interrupt is passed on

// The tokens for the other program, as long as it runs.
class TokenFile {
 public:
  explicit TokenFile(const fs::path& out) : path_(out.string() + ".tokens") {}
  ~TokenFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  Status write(const std::vector<std::vector<text::TokenId>>& sequences) const {
    return io::write_text_file(path_, nlohmann::json(sequences).dump());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// This process's, with threads that sleep and memory that is kept unless it says otherwise.
std::vector<std::string> trainer_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  if (std::getenv(kWaitPolicy) == nullptr) {
    variables.push_back(fmt::format("{}={}", kWaitPolicy, kSleepingThreads));
  }
  if (std::getenv(kAllocator) == nullptr) {
    variables.push_back(fmt::format("{}={}", kAllocator, kMemoryIsKept));
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A child whose standard output is read here: an error is told there.
class Child {
 public:
  static Result<Child> start(const fs::path& program, std::vector<std::string> arguments) {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail("pipe: {}", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<std::string> variables = trainer_environment();
    Child child;
    const int error = posix_spawn(&child.id_, program.c_str(), &actions, nullptr,
                                  pointers_to(arguments).data(), pointers_to(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    child.output_ = ends[0];
    if (error == ENOENT) return trainer_is_missing(program);
    if (error != 0) return fail("{}: cannot be run: {}", program.string(), strerror(error));
    return child;
  }
  Child(Child&& other) noexcept : id_(other.id_), output_(std::exchange(other.output_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (output_ >= 0) close(output_);
  }

  // What it prints until it ends. Interrupts of this process become its own.
  std::string read_output() const {
    std::string output;
    bool passed_on = false;
    while (true) {
      if (interrupted() && !passed_on) passed_on = kill(id_, SIGTERM) == 0;
      pollfd waiting = {.fd = output_, .events = POLLIN, .revents = 0};
      if (poll(&waiting, 1, kPollMs) <= 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(output_, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return output;
      output.append(buffer.data(), static_cast<size_t>(n));
    }
  }

  int wait() const {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
  }

 private:
  Child() = default;
  pid_t id_ = 0;
  int output_ = -1;
};

Status outcome_of(const fs::path& program, int status, std::string message) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (interrupted() || (WIFEXITED(status) && WEXITSTATUS(status) == kInterruptedExit)) {
    return interrupted_error("the output metric is not kept");
  }
  if (WIFSIGNALED(status)) {
    return fail(
        "{} metric: ended by signal {} ({}){}", program.string(), WTERMSIG(status),
        strsignal(WTERMSIG(status)),
        WTERMSIG(status) == SIGKILL ? "; if memory is short, shorter sequences may fit" : "");
  }
  while (message.ends_with('\n')) message.pop_back();
  if (!message.empty()) return Error{std::move(message)};
  return fail("{} metric: failed with exit code {}", program.string(), WEXITSTATUS(status));
}

}  // namespace

bool metric_program_available() {
  const auto path = trainer_path();
  return path.ok() && access(path->c_str(), X_OK) == 0;
}

Status run_metric_program(const MetricCall& call) {
  NMM_ASSIGN(const fs::path program, trainer_path());
  return run_metric_program(call, program);
}

Status run_metric_program(const MetricCall& call, const fs::path& program) {
  const TokenFile tokens(call.out);
  NMM_TRY(tokens.write(call.sequences));
  std::vector<std::string> arguments = {
      program.string(),         "metric",    call.model.string(),          tokens.path(),
      call.out.string(),        "--threads", std::to_string(call.threads), "--seed",
      std::to_string(call.seed)};
  if (call.silent) arguments.emplace_back("--silent");
  NMM_ASSIGN(const Child child, Child::start(program, std::move(arguments)));
  std::string message = child.read_output();
  return outcome_of(program, child.wait(), std::move(message));
}

}  // namespace neuronmm::apps
