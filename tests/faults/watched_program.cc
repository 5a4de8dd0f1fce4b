#include "watched_program.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parallel/several_processes.h"
#include "places.h"

namespace neuronmm::faults {
namespace {

namespace fs = std::filesystem;
using io::get;
using io::put;

// Makes the file of the shared memory and maps it.
std::shared_ptr<FaultControl> map_control(const fs::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  NMM_CHECK(file >= 0 && ftruncate(file, sizeof(FaultControl)) == 0);
  void* const memory =
      mmap(nullptr, sizeof(FaultControl), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  NMM_CHECK(memory != MAP_FAILED);
  close(file);
  return {static_cast<FaultControl*>(memory),
          [](FaultControl* control) { munmap(control, sizeof(FaultControl)); }};
}

// A run that takes longer hangs, also on a busy machine.
constexpr std::chrono::seconds kPatience(300);

// Returns the status of a process that ends. One that hangs is killed, and the test fails.
int status_of(pid_t child) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      ADD_FAILURE() << "the program hangs";
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return status;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

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

Tree part_of(const Tree& tree, const std::string& name) {
  Tree part;
  for (const auto& [path, content] : tree) {
    if (path == name || path.starts_with(name + "/")) part[path] = content;
  }
  return part;
}

std::string difference(const Tree& expected, const Tree& found) {
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

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

WatchedProgram::WatchedProgram() : control_(map_control(root_ / "control")) {
  for (const char* name : {"w/in", "w/run", "w/tmp", "w/home", "unwatched"}) {
    fs::create_directories(root_ / name);
  }
  const std::string folder = (root_ / "w").string() + "/";
  NMM_CHECK(folder.size() < sizeof(control_->folder));
  std::strcpy(control_->folder, folder.c_str());
}

void WatchedProgram::prepare(const std::string& output) const {
  fs::remove_all(working_folder());
  fs::remove_all(temporary_folder());
  fs::create_directories(working_folder());
  fs::create_directories(temporary_folder());
  for (const char* name :
       {"thesis.tex", "o.json.tmp", "out.tmp", "out.partial.txt", "out.floats.x"}) {
    put(working_folder() / name, name);
  }
  if (!output.empty()) fs::copy(in() / output, working_folder() / "out");
}

std::vector<std::string> WatchedProgram::environment() const {
  return {"LD_PRELOAD=" NEURONMM_FAULT_INJECTOR,
          std::string(kControlVariable) + "=" + (root_ / "control").string()};
}

// Under mpirun only the program itself is watched, not the launcher.
std::vector<std::string> WatchedProgram::command_line(const std::string& arguments,
                                                      Needs needs) const {
  std::vector<std::string> words = {program_path().string()};
  if (needs == Needs::kMpirun) {
    words = words_of(parallel::mpirun(2) + "env");
    for (const std::string& variable : environment()) words.push_back(variable);
    words.push_back(program_path().string());
    words.front() = "/usr/bin/timeout";
  }
  for (std::string& word : words_of(arguments)) words.push_back(std::move(word));
  return words;
}

Outcome WatchedProgram::run(const std::string& arguments, const Fault& fault,
                            const std::string& input, Needs needs) const {
  const std::string log = root_ / "log", typed = root_ / "typed";
  put(typed, input);
  control_->calls = 0;
  control_->at = fault.call;
  control_->code = fault.code;
  control_->failed[0] = '\0';
  const bool launched = needs == Needs::kMpirun;
  std::vector<std::string> words = command_line(arguments, needs);
  std::vector<std::string> variables = launched ? std::vector<std::string>() : environment();
  for (const std::string& variable :
       {"HOME=" + (root_ / "w/home").string(),
        "TMPDIR=" + (launched ? root_ / "unwatched" : temporary_folder()).string(),
        std::string("OMP_NUM_THREADS=2"), std::string("SOURCE_DATE_EPOCH=0")}) {
    variables.push_back(variable);  // all reports have the same date
  }
  if (const char* path = std::getenv("PATH")) variables.push_back(std::string("PATH=") + path);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, working_folder().c_str());
  posix_spawn_file_actions_addopen(&actions, 0, typed.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawn(&child, words.front().c_str(), &actions, nullptr,
                                pointers_to(words).data(), pointers_to(variables).data());
  EXPECT_EQ(error, 0) << words.front();
  posix_spawn_file_actions_destroy(&actions);
  const int status = status_of(child);
  Outcome outcome;
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.output = get(log);
  outcome.calls = control_->calls;
  outcome.failed = control_->failed;
  return outcome;
}

}  // namespace neuronmm::faults
