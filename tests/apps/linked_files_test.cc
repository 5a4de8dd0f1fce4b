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

TEST(LinkedFiles, EveryFileIsHardenedByTheLinker) {
  for (const fs::path& path : linked_files()) {
    SCOPED_TRACE(path);
    const ElfFile file = read_elf_file(path);
    EXPECT_TRUE(file.position_independent);
    EXPECT_TRUE(file.relocations_are_read_only);
    EXPECT_TRUE(file.binds_now);
    EXPECT_TRUE(file.has_stack_header);
    EXPECT_FALSE(file.stack_is_executable);
  }
}

// The compiler's checks call these functions when they find a fault.
TEST(LinkedFiles, TheProgramsCheckTheirStackAndTheSizesOfBuffers) {
#if defined(NEURONMM_SANITIZED) || !defined(NDEBUG)
  GTEST_SKIP()
      << "only release builds without sanitizers have these checks: ctest --preset release";
#endif
  for (const fs::path& path : linked_files()) {
    if (path.parent_path() != program_path().parent_path()) continue;
    if (!path.filename().string().starts_with("neuronmm")) continue;
    SCOPED_TRACE(path);
    const std::set<std::string> imports = read_elf_file(path).imports;
    EXPECT_THAT(imports, testing::Contains("__stack_chk_fail"));
    EXPECT_THAT(imports, testing::Contains(testing::EndsWith("_chk")));
  }
}

}  // namespace
}  // namespace neuronmm::apps
