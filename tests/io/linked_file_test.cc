// Tests putting a file into a second folder by a hard link or a copy.

#include "io/linked_file.h"

#include <sys/stat.h>

#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

TEST(LinkedFile, ALinkIsAnotherNameOfTheFile) {
  const TemporaryFolder folder;
  put(folder / "a", "weights");
  ASSERT_TRUE(link_or_copy(folder / "a", folder / "b").ok());
  EXPECT_TRUE(fs::equivalent(folder / "a", folder / "b"));
  fs::remove(folder / "a");
  EXPECT_EQ(get(folder / "b"), "weights");
}

// The Hugging Face cache has such links.
TEST(LinkedFile, SymbolicLinksAreFollowed) {
  const TemporaryFolder folder;
  put(folder / "blob", "weights");
  fs::create_symlink("blob", folder / "link");
  ASSERT_TRUE(link_or_copy(folder / "link", folder / "b").ok());
  EXPECT_FALSE(fs::is_symlink(folder / "b"));
  EXPECT_TRUE(fs::equivalent(folder / "blob", folder / "b"));
}

TEST(LinkedFile, AFileIsCopiedToAnotherDisk) {
  const TemporaryFolder folder;
  const fs::path memory = "/dev/shm";
  struct stat here = {}, there = {};
  if (stat(folder.path().c_str(), &here) != 0 || stat(memory.c_str(), &there) != 0 ||
      here.st_dev == there.st_dev) {
    GTEST_SKIP() << "/dev/shm is no file system of its own: mount a tmpfs there";
  }
  std::string pattern = memory / "neuronmm-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  // The copy takes more than two pieces.
  const std::string bytes(20'000'001, 'x');
  put(folder / "a", bytes);
  const Status copied = link_or_copy(folder / "a", fs::path(pattern) / "b");
  EXPECT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_EQ(get(fs::path(pattern) / "b"), bytes);
  fs::remove_all(pattern);
}

TEST(LinkedFile, RefusesFoldersAndReplacesNoFile) {
  const TemporaryFolder folder;
  put(folder / "a", "one");
  put(folder / "b", "two");
  const Status exists = link_or_copy(folder / "a", folder / "b");
  ASSERT_FALSE(exists.ok());
  EXPECT_EQ(exists.error().message, (folder / "b").string() + ": already exists");
  EXPECT_EQ(get(folder / "b"), "two");
  EXPECT_FALSE(link_or_copy(folder / "absent", folder / "c").ok());
  EXPECT_FALSE(link_or_copy(folder.path(), folder / "c").ok());
  EXPECT_FALSE(fs::exists(folder / "c"));
}

}  // namespace
}  // namespace neuronmm::io
