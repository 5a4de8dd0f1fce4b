// Tests of CPU quotas and allowed cores, in folders that look like /proc and /sys of a container.

#include "base/cpu_quota.h"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

class Quota : public testing::Test {
 protected:
  ~Quota() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void expect_quota(double cores, const std::string& file) {
    const auto quota = cpu_quota(root_);
    ASSERT_TRUE(quota.has_value());
    EXPECT_DOUBLE_EQ(quota->cores, cores);
    EXPECT_EQ(quota->file, (root_ / file).string());
  }
  void expect_none() { EXPECT_FALSE(cpu_quota(root_).has_value()); }

  const fs::path root_ =
      fs::path(testing::TempDir()) / ("neuronmm-quota-" + std::to_string(getpid()));
};

constexpr const char* kMountOfVersion2 =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";
constexpr const char* kMountOfVersion1 =
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";

TEST_F(Quota, OfVersionTwoIsRead) {
  write("proc/self/mountinfo", kMountOfVersion2);
  write("proc/self/cgroup", "0::/app");
  expect_none();
  write("sys/fs/cgroup/app/cpu.max", "max 100000");
  expect_none();
  write("sys/fs/cgroup/app/cpu.max", "250000 100000");
  expect_quota(2.5, "sys/fs/cgroup/app/cpu.max");
}

TEST_F(Quota, OfVersionOneIsRead) {
  write("proc/self/mountinfo", kMountOfVersion1);
  write("proc/self/cgroup", "9:memory:/other\n4:cpu,cpuacct:/app\n0::/elsewhere");
  write("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us", "50000");
  expect_none();
  write("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "25000");
  expect_quota(0.5, "sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us");
}

TEST_F(Quota, TheTightestOfNestedGroupsCounts) {
  write("proc/self/mountinfo", kMountOfVersion2);
  write("proc/self/cgroup", "0::/kubepods/pod1/c1");
  write("sys/fs/cgroup/kubepods/pod1/c1/cpu.max", "400000 100000");
  expect_quota(4, "sys/fs/cgroup/kubepods/pod1/c1/cpu.max");
  write("sys/fs/cgroup/kubepods/cpu.max", "300000 200000");
  expect_quota(1.5, "sys/fs/cgroup/kubepods/cpu.max");
  write("sys/fs/cgroup/kubepods/pod1/cpu.max", "max 100000");
  expect_quota(1.5, "sys/fs/cgroup/kubepods/cpu.max");
}

// systemd's hybrid layout has the controllers in version 1 and an empty tree of version 2.
TEST_F(Quota, BothVersionsAtOnceAreRead) {
  write("proc/self/mountinfo",
        std::string(kMountOfVersion1) +
            "\n41 23 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate");
  write("proc/self/cgroup", "4:cpu,cpuacct:/a\n0::/b");
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000");
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000");
  fs::create_directories(root_ / "sys/fs/cgroup/unified/b");
  expect_quota(3, "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us");
  write("sys/fs/cgroup/unified/b/cpu.max", "200000 100000");
  expect_quota(2, "sys/fs/cgroup/unified/b/cpu.max");
}

TEST_F(Quota, GroupsMayBeMountedAnywhere) {
  write("proc/self/mountinfo", "30 23 0:26 / /opt/my\\040groups rw - cgroup2 none rw");
  write("proc/self/cgroup", "0::/app");
  write("opt/my groups/app/cpu.max", "100000 100000");
  expect_quota(1, "opt/my groups/app/cpu.max");
}

// Docker mounts the container's own group of version 1 without a namespace.
TEST_F(Quota, OfAContainerWithoutANamespaceIsRead) {
  write("proc/self/mountinfo",
        "31 29 0:27 /docker/abc /sys/fs/cgroup/cpu ro,nosuid master:9 - cgroup cgroup rw,cpu");
  write("proc/self/cgroup", "4:cpu:/docker/abc/inner");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000");
  expect_quota(2, "sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000");
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "150000");
  expect_quota(1.5, "sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us");
}

TEST_F(Quota, OfAMountAboveTheNamespaceIsRead) {
  write("proc/self/mountinfo", "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/");
  write("sys/fs/cgroup/cpu.max", "150000 100000");
  expect_quota(1.5, "sys/fs/cgroup/cpu.max");
}

TEST_F(Quota, OfAnotherContainerDoesNotCount) {
  write("proc/self/mountinfo", std::string(kMountOfVersion2) +
                                   "\n35 23 0:26 /docker/xyz /run/xyz rw - cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/docker/abc");
  write("run/xyz/cpu.max", "100000 100000");
  expect_none();
}

TEST_F(Quota, NonsenseIsNoQuota) {
  expect_none();
  for (const char* mounts : {"", "garbage", "- cgroup2 cgroup2 rw", "1 2 3 - cgroup2",
                             "30 23 0:26 / \\9 rw - cgroup2 a b",
                             "30 23 0:26 relative also/relative rw - cgroup2 cgroup2 rw",
                             kMountOfVersion2, kMountOfVersion1}) {
    write("proc/self/mountinfo", mounts);
    for (const char* group : {"", ":", "::", "0:", "0::", "0::relative", "0::/../../..", "0::/app",
                              "4:cpu", "4:cpu:", "4:cpu:/app"}) {
      write("proc/self/cgroup", group);
      for (const char* quota : {"", "max", "0 0", "-5 100000", "100000", "100000 0", "100000 x",
                                "1e5 100000", "99999999999999999999 100000"}) {
        write("sys/fs/cgroup/app/cpu.max", quota);
        write("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", quota);
        expect_none();
      }
    }
  }
}

TEST_F(Quota, ThreadsAreRoundedDownAndAtLeastOne) {
  const auto cores = static_cast<int>(allowed_core_list().size());
  EXPECT_EQ(threads_for_process(1, true, root_), cores) << "without a quota";
  EXPECT_EQ(threads_for_process(4 * cores, true, root_), 1);
  EXPECT_EQ(threads_for_process(4 * cores, false, root_), cores) << "with cores of their own";
  write("proc/self/mountinfo", kMountOfVersion2);
  write("proc/self/cgroup", "0::/");
  const auto threads_with = [&](const std::string& quota, int processes) {
    write("sys/fs/cgroup/cpu.max", quota);
    return threads_for_process(processes, false, root_);
  };
  EXPECT_EQ(threads_with("50000 100000", 1), 1);
  EXPECT_EQ(threads_with("199999 100000", 1), 1);
  EXPECT_EQ(threads_with("200000 100000", 1), std::min(2, cores));
  EXPECT_EQ(threads_with("390000 100000", 2), 1);
  EXPECT_EQ(threads_with("9000000000000 1", 1), cores);
}

TEST(AllowedCores, AreThoseOfTheAffinityMask) {
  const std::vector<int> before = allowed_core_list();
  const auto allow = [](const std::vector<int>& cores) {
    const CoreMask mask(cores.back() + 1);
    for (const int core : cores) CPU_SET_S(static_cast<size_t>(core), mask.bytes(), mask.get());
    return sched_setaffinity(0, mask.bytes(), mask.get());
  };
  ASSERT_EQ(allow({before.back()}), 0);
  EXPECT_EQ(allowed_core_list(), std::vector<int>{before.back()});
  EXPECT_EQ(threads_for_process(1, true, "/nonexistent"), 1);
  ASSERT_EQ(allow(before), 0);
  EXPECT_EQ(allowed_core_list(), before);
}

}  // namespace
}  // namespace neuronmm
