// neuronmm finetune, as the one program sees it: training needs libtorch, a library so large that
// loading it takes longer than most other commands run. It lives in a program of its own beside
// this one, and this command becomes that program.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "commands.h"
#include "model/finetune_flags.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

// exec, so that there is one process: signals and the exit code are those of the trainer.
Result<int> run_trainer(std::vector<std::string> arguments) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe: cannot be read: {}", error.message());
  const fs::path trainer = self.parent_path() / "neuronmm-finetune";
  arguments.insert(arguments.begin(), trainer.string());
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // libtorch's threads spin between its many short loops unless told to sleep. Measured on two busy
  // cores: 53 tokens/s spinning, 800 sleeping (the bundled model).
  setenv("OMP_WAIT_POLICY", "PASSIVE", /*overwrite=*/0);
  execv(trainer.c_str(), argv.data());
  if (errno != ENOENT) return fail("{}: cannot be run: {}", trainer.string(), strerror(errno));
  return fail(
      "{} is missing, because libtorch was not found when neuronmm was built. Install it "
      "(tools/install_dependencies.sh finetune, or Debian's libtorch-dev, or unpack one of "
      "pytorch.org and give its folder to cmake as -DCMAKE_PREFIX_PATH), then configure and build "
      "again",
      trainer.string());
}

}  // namespace

void add_finetune(Program& program) {
  CLI::App* command = program.add(CommandGroup::kModels, "finetune", kFinetuneDescription);
  const auto flags = std::make_shared<FinetuneFlags>();  // checked here, read by the other program
  add_finetune_flags(command, *flags);
  program.set_run(command, [flags, &program] { return run_trainer(program.arguments()); });
}

}  // namespace neuronmm::apps
