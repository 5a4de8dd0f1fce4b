#include "training/trainer.h"

#include <system_error>

namespace neuronmm::apps {

namespace fs = std::filesystem;

Result<fs::path> trainer_path() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe: cannot be read: {}", error.message());
  return self.parent_path() / "neuronmm-finetune";
}

Error missing_trainer_error(const fs::path& trainer) {
  return fail(
      "{} is missing, because libtorch was not found when neuronmm was built. Install it "
      "(tools/install_dependencies.sh finetune, or Debian's libtorch-dev, or unpack one of "
      "pytorch.org and give its folder to cmake as -DCMAKE_PREFIX_PATH), then configure and build "
      "again",
      trainer.string());
}

}  // namespace neuronmm::apps
