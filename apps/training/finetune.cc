// The command neuronmm finetune, which replaces this process by the program neuronmm-finetune.
// Training needs libtorch, and loading that library takes longer than most other commands run.
// Therefore it is linked to a program of its own.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "commands.h"
#include "training/finetune_flags.h"
#include "training/trainer.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

// Replaces this process by the trainer. With one process, signals reach the trainer directly and
// its exit code is the exit code of the command.
Result<int> run_trainer(std::vector<std::string> arguments) {
  NMM_ASSIGN(const fs::path trainer, trainer_path());
  NMM_TRY(check_trainer_memory());
  arguments.insert(arguments.begin(), trainer.string());
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  setenv(kWaitPolicyVariable, kPassiveWait, /*overwrite=*/0);
  setenv(kAllocatorVariable, kKeepFreedMemory, /*overwrite=*/0);
  execv(trainer.c_str(), argv.data());
  if (errno == ENOENT) return missing_trainer_error(trainer);
  return fail("{}: cannot be run: {}", trainer.string(), strerror(errno));
}

}  // namespace

void add_finetune(Program& program) {
  // This program only checks the flags; the trainer parses them again.
  const auto flags = std::make_shared<FinetuneFlags>();
  CLI::App* command = add_finetune_command(program, *flags);
  program.set_run(command, [flags, &program] { return run_trainer(program.arguments()); });
}

}  // namespace neuronmm::apps
