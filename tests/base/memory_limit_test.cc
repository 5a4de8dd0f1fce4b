// Tests of the limits of control groups, in folders that look like /proc and /sys of a container.

#include "base/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <new>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

class ContainerLimit : public testing::Test {
 protected:
  ~ContainerLimit() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void expect_limit(int64_t bytes, const std::string& file) {
    const auto limit = container_memory_limit(root_);
    ASSERT_TRUE(limit.has_value());
    EXPECT_EQ(limit->bytes, bytes);
    EXPECT_EQ(limit->file, (root_ / file).string());
  }

  const fs::path root_ =
      fs::path(testing::TempDir()) / ("neuronmm-limit-" + std::to_string(getpid()));
};

constexpr const char* kVersion2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";

TEST_F(ContainerLimit, NestedGroupsHaveTheSmallestLimitOfAll) {
  write("proc/self/mountinfo", kVersion2);
  write("proc/self/cgroup", "0::/kubepods/pod1/c1");
  write("sys/fs/cgroup/kubepods/memory.max", "8000000000");
  write("sys/fs/cgroup/kubepods/pod1/memory.max", "300000000");
  write("sys/fs/cgroup/kubepods/pod1/c1/memory.max", "max");
  expect_limit(300000000, "sys/fs/cgroup/kubepods/pod1/memory.max");
  write("sys/fs/cgroup/kubepods/pod1/c1/memory.max", "200000000");
  expect_limit(200000000, "sys/fs/cgroup/kubepods/pod1/c1/memory.max");
}

// A container with a namespace of its own sees its group as the root.
TEST_F(ContainerLimit, TheRootOfANamespaceHasALimit) {
  write("proc/self/mountinfo", kVersion2);
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/memory.max", "268435456");
  expect_limit(268435456, "sys/fs/cgroup/memory.max");
}

TEST_F(ContainerLimit, NoLimitIsFoundWhereThereIsNone) {
  EXPECT_FALSE(container_memory_limit(root_).has_value());
  write("proc/self/mountinfo", kVersion2);
  write("proc/self/cgroup", "0::/user.slice");
  EXPECT_FALSE(container_memory_limit(root_).has_value());
  write("sys/fs/cgroup/user.slice/memory.max", "max");
  EXPECT_FALSE(container_memory_limit(root_).has_value());
}

// Docker mounts the container's own group of version 1 without a namespace.
TEST_F(ContainerLimit, VersionOneIsRead) {
  write("proc/self/mountinfo",
        "31 29 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "33 29 0:29 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:11 - cgroup cgroup "
        "rw,memory");
  write("proc/self/cgroup", "11:memory:/docker/abc\n10:cpu,cpuacct:/docker/abc");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_FALSE(container_memory_limit(root_).has_value());
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912");
  expect_limit(536870912, "sys/fs/cgroup/memory/memory.limit_in_bytes");
}

TEST_F(ContainerLimit, AGroupOutsideTheMountCountsAsTheMountedOne) {
  write("proc/self/mountinfo",
        "33 29 0:29 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate");
  write("proc/self/cgroup", "0::/../other");
  write("sys/fs/cgroup/memory.max", "1000000");
  expect_limit(1000000, "sys/fs/cgroup/memory.max");
}

TEST(MemoryUse, CountsWhatIsWritten) {
  const MemoryUse before = memory_use();
  EXPECT_GT(before.anonymous, 0);
  EXPECT_GT(before.mapped, 0);
  const size_t size = size_t{32} << 20;
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const MemoryUse reserved = memory_use();
  EXPECT_GE(reserved.data - before.data, static_cast<int64_t>(size));
  EXPECT_LT(reserved.anonymous - before.anonymous, static_cast<int64_t>(size) / 2);
  std::fill_n(static_cast<char*>(memory), size, 'x');
  EXPECT_GE(memory_use().anonymous - before.anonymous, static_cast<int64_t>(size) * 9 / 10);
  munmap(memory, size);
}

// Runs in a child, because a limit cannot be taken back.
TEST(AnonymousMemory, ALimitMakesAllocationsFailAndAllowsThreads) {
#ifdef NEURONMM_SANITIZED
  GTEST_SKIP() << "AddressSanitizer ends a program whose allocation fails: use a build without it";
#endif
  const pid_t child = fork();
  if (child == 0) {
    constexpr size_t kPiece = size_t{64} << 20;
    limit_anonymous_memory(memory_use().anonymous + (int64_t{100} << 20), 2);
    int pieces = 0;
    std::unique_ptr<char[]> kept[3];
    try {
      for (; pieces < 3; ++pieces) kept[pieces].reset(new char[kPiece]);
    } catch (const std::bad_alloc&) {
    }
    try {
      std::thread([] {}).join();
    } catch (const std::exception&) {
      _exit(100);
    }
    _exit(pieces);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1) << "one piece of 64 MiB fits into 100 MiB";
}

}  // namespace
}  // namespace neuronmm
