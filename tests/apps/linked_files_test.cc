// Checks how the programs and shared libraries of the build were linked. The build lists them in
// programs.txt; those that were not built are left out.

#include <gmock/gmock.h>

#include "elf_file.h"
#include "run_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> linked_files() {
  std::ifstream list(program_path().parent_path() / "programs.txt");
  std::vector<fs::path> files;
  for (std::string line; std::getline(list, line);) {
    if (fs::exists(line)) files.emplace_back(line);
  }
  return files;
}

TEST(LinkedFiles, TheProgramIsOnTheList) {
  EXPECT_THAT(linked_files(), testing::Contains(program_path()));
  EXPECT_GT(read_elf_file(program_path()).imports.size(), 100u);
  EXPECT_THAT(read_elf_file(program_path()).needed, testing::Contains("libc.so.6"));
}

TEST(LinkedFiles, LibrariesAreNeverSearchedInTheCurrentFolder) {
  for (const fs::path& file : linked_files()) {
    for (const std::string& folder : read_elf_file(file).run_path)
      EXPECT_TRUE(folder.starts_with('/') || folder.starts_with("$ORIGIN"))
          << file << ": " << folder;
  }
  EXPECT_THAT(split_run_path("/a:"), testing::ElementsAre("/a", ""));
}

}  // namespace
}  // namespace neuronmm::apps
