// Tests writing and reading whole files: devices, pipes, links, permissions and failures.

#include "io/atomic_file.h"

#include <csignal>
#include <thread>

#include <sys/resource.h>
#include <sys/stat.h>

#include "io/staging_folder.h"
#include "io/text_file.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// Every write to /dev/full fails with "No space left on device", as on a full disk.
TEST(AtomicFile, DevicesAreWrittenToAndStay) {
  if (!fs::exists("/dev/full"))
    GTEST_SKIP() << "no /dev/full: run this test on Linux with /dev mounted";
  EXPECT_TRUE(fails_with(write_text_file("/dev/full", "text"),
                         {"/dev/full", "cannot be written", "No space left"}));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(write_text_file("/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, PipesAreWrittenToAndStay) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = get(pipe); });
  EXPECT_TRUE(write_text_file(pipe, "text").ok());
  reader.join();
  EXPECT_EQ(received, "text");
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(AtomicFile, LinksAreFollowedToAFileOrRefused) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "elsewhere");
  put(folder / "elsewhere/target", "old");
  fs::create_symlink("elsewhere/target", folder / "link");
  ASSERT_TRUE(write_text_file(folder / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(get(folder / "elsewhere/target"), "new");
  fs::create_symlink("nothing", folder / "dangling");
  EXPECT_TRUE(
      fails_with(write_text_file(folder / "dangling", "x"), {"dangling", "link to nothing"}));
  EXPECT_FALSE(fs::exists(folder / "nothing"));
  EXPECT_TRUE(fails_with(write_text_file(folder.path(), "x"), {"found a folder"}));
}

TEST(AtomicFile, PermissionsStayAsTheyWere) {
  const TemporaryFolder folder;
  put(folder / "w", "old");
  fs::permissions(folder / "w", fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(write_text_file(folder / "w", "new").ok());
  EXPECT_EQ(fs::status(folder / "w").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// The next process removes what a killed process left. It does not remove a file that is being
// written or a file with a similar name.
TEST(AtomicFile, StaleTemporariesAreRemovedAndNothingElse) {
  const TemporaryFolder folder;
  const std::string stale = ".w.0123456789abcdef.neuronmm";
  const std::string foreign[] = {"w.tmp",
                                 ".w.tmp",
                                 ".w.0123.neuronmm",
                                 ".v.0123456789abcdef.neuronmm",
                                 ".w.0123456789abcdeg.neuronmm",
                                 "w.0123456789abcdef.neuronmm"};
  put(folder / stale, "half");
  for (const std::string& name : foreign) put(folder / name, name);
  auto other = AtomicFile::create(folder / "w");
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(fs::exists(folder / stale));
  EXPECT_TRUE(write_text_file(folder / "w", "first").ok());
  EXPECT_TRUE(other->append(std::as_bytes(std::span("second", 6))).ok());
  EXPECT_TRUE(other->finish().ok()) << "its temporary must not have been taken for stale";
  EXPECT_EQ(get(folder / "w"), "second");
  for (const std::string& name : foreign) EXPECT_EQ(get(folder / name), name);
}

TEST(AtomicFile, AFailedWriteLeavesNothing) {
  const TemporaryFolder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {100, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const Status written = write_text_file(folder / "w", std::string(1000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(fails_with(written, {"w: cannot be written", "too large"}));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(AtomicFile, AppearsOnlyWhenFinished) {
  const TemporaryFolder folder;
  {
    auto file = AtomicFile::create(folder / "w");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append(std::as_bytes(std::span("abc", 3))).ok());
    EXPECT_FALSE(fs::exists(folder / "w"));
    // The source of the move must neither remove nor finish the file.
    AtomicFile moved = std::move(*file);
    EXPECT_FALSE(file->finish().ok());
    ASSERT_TRUE(moved.finish().ok());
  }
  EXPECT_EQ(get(folder / "w"), "abc");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(AtomicFile, AssignmentDiscardsTheOpenFile) {
  const TemporaryFolder folder;
  auto first = AtomicFile::create(folder / "first");
  auto second = AtomicFile::create(folder / "second");
  *first = std::move(*second);
  ASSERT_TRUE(first->finish().ok());
  EXPECT_TRUE(fs::exists(folder / "second"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

// A killed run leaves its staging folder, from which the next run sees that the file is in place.
TEST(AtomicFile, IsKnownByItsInodeBeforeAndAfterItHasItsName) {
  const TemporaryFolder folder;
  const auto staging = StagingFolder::create(folder / "w.partial");
  ASSERT_TRUE(staging.ok());
  for (const bool replaced : {false, true}) {
    SCOPED_TRACE(replaced ? "replaced" : "new");
    auto file = AtomicFile::create(folder / "w");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(staging->mark_commit(*file->inode()).ok());
    EXPECT_FALSE(staging->is_committed(folder / "w"));
    ASSERT_TRUE(file->finish().ok());
    EXPECT_TRUE(staging->is_committed(folder / "w"));
    EXPECT_FALSE(file->inode().ok());
  }
}

TEST(TextFile, RoundTripsAnyBytes) {
  const TemporaryFolder folder;
  std::string text(200'000, 'x');
  text.replace(0, 5, std::string_view("a\0b\r\n", 5));
  ASSERT_TRUE(write_text_file(folder / "t", text).ok());
  const auto read = read_text_file(folder / "t", 1 << 20);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, text);
}

TEST(TextFile, OnlyRegularFilesOfABoundedSizeAreRead) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(fails_with(read_text_file(folder / "pipe", 100), {"pipe", "regular file"}));
  EXPECT_TRUE(fails_with(read_text_file("/dev/zero", 100), {"/dev/zero", "regular file"}));
  put(folder / "large", std::string((5 << 20) + 1, 'x'));
  EXPECT_TRUE(fails_with(read_text_file(folder / "large", 5 << 20), {"large", "at most 5 MB"}));
  EXPECT_TRUE(read_text_file(folder / "large", 6 << 20).ok());
}

TEST(TextFile, AUsersTextMayComeFromAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { put(folder / "pipe", "text"); });
  const auto text = read_user_text(folder / "pipe");
  writer.join();
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "text");
  EXPECT_TRUE(fails_with(read_user_text("/dev/zero"), {"/dev/zero", "regular file"}));
}

TEST(TextFile, ACorpusIsUtf8WithoutNulBytes) {
  const TemporaryFolder folder;
  put(folder / "text", "caf\xC3\xA9\n");
  EXPECT_EQ(*read_corpus(folder / "text"), "caf\xC3\xA9\n");
  put(folder / "utf16", std::string("\xFF\xFE\x61\0\x62\0", 6));
  EXPECT_TRUE(fails_with(read_corpus(folder / "utf16"), {"utf16", "UTF-8", "NUL byte at 3"}));
  put(folder / "latin", "caf\xE9 au lait");
  EXPECT_TRUE(fails_with(read_corpus(folder / "latin"), {"latin", "UTF-8", "0xE9 at 3"}));
  put(folder / "surrogate", "\xED\xA0\x80 text");
  EXPECT_TRUE(fails_with(read_corpus(folder / "surrogate"), {"0xED at 0"}));
  put(folder / "cut", "caf\xC3");  // The command head -c cuts texts like this.
  EXPECT_TRUE(read_corpus(folder / "cut").ok());
  put(folder / "wrong end", "caf\xFF");
  EXPECT_EQ(read_corpus(folder / "wrong end").ok(), false);
}

TEST(TextFile, ErrorsNameTheFileAndTheReason) {
  const TemporaryFolder folder;
  EXPECT_TRUE(fails_with(read_text_file(folder / "absent", 100), {"absent", "No such file"}));
  EXPECT_TRUE(fails_with(read_text_file(folder.path(), 100), {"regular file", "a folder"}));
  EXPECT_TRUE(fails_with(write_text_file(folder.path() / "no" / "t", ""), {"no/t", "No such"}));
}

}  // namespace
}  // namespace neuronmm::io
