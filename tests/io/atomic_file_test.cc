#include "io/atomic_file.h"

#include "io/folder_writer.h"
#include "io/text_file.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// /dev/full fails every write with "No space left on device", as a full disk does.
TEST(AtomicFile, FullDiskIsReportedAndLeavesNothing) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  const TemporaryFolder folder;
  fs::create_symlink("/dev/full", folder / "w.tmp");
  EXPECT_TRUE(fails_with(write_text_file(folder / "w", "text"),
                         {(folder / "w").string(), "cannot be written", "No space left"}));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(AtomicFile, AppearsOnlyWhenFinished) {
  const TemporaryFolder folder;
  {
    auto file = AtomicFile::create(folder / "w");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append(std::as_bytes(std::span("abc", 3))).ok());
    EXPECT_FALSE(fs::exists(folder / "w"));
    AtomicFile moved = std::move(*file);  // the source must not remove it, nor finish it
    EXPECT_FALSE(file->finish().ok());
    ASSERT_TRUE(moved.finish().ok());
  }
  EXPECT_EQ(get(folder / "w"), "abc");
  EXPECT_FALSE(fs::exists(folder / "w.tmp"));
}

TEST(AtomicFile, AssignmentAbandonsWhatWasOpen) {
  const TemporaryFolder folder;
  auto first = AtomicFile::create(folder / "first");
  auto second = AtomicFile::create(folder / "second");
  *first = std::move(*second);
  EXPECT_FALSE(fs::exists(folder / "first.tmp"));
  ASSERT_TRUE(first->finish().ok());
  EXPECT_TRUE(fs::exists(folder / "second"));
}

TEST(TextFile, RoundTripsAnyBytes) {
  const TemporaryFolder folder;
  const std::string text = std::string("a\0b\r\n", 5) + std::string(200'000, 'x');
  ASSERT_TRUE(write_text_file(folder / "t", text).ok());
  const auto read = read_text_file(folder / "t");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, text);
}

TEST(TextFile, NamesWhatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_TRUE(fails_with(read_text_file(folder / "absent"), {"absent", "No such file"}));
  EXPECT_TRUE(fails_with(read_text_file(folder.path()), {"Is a directory"}));
  EXPECT_TRUE(fails_with(write_text_file(folder.path() / "no" / "t", ""), {"no/t", "No such"}));
}

}  // namespace
}  // namespace neuronmm::io
