// Tests of memory domains, in folders that look like /sys/devices/system/node.

#include "base/memory_domains.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/cpu_quota.h"
#include "base/parallel.h"

namespace neuronmm {
namespace {

namespace fs = std::filesystem;

class Domains : public testing::Test {
 protected:
  ~Domains() override {
    bind_threads({}, 0);
    set_num_threads(before_);
    parallel_for(64, [](int64_t) {});  // releases the threads
    fs::remove_all(folder_);
  }
  void write(const std::string& node, const std::string& cores) {
    fs::create_directories(folder_ / node);
    std::ofstream(folder_ / node / "cpulist") << cores << "\n";
  }

  const int before_ = num_threads();
  const std::vector<int> allowed_ = allowed_core_list();
  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("neuronmm-nodes-" + std::to_string(getpid()));
};

TEST_F(Domains, HaveTheAllowedCoresOfTheirLists) {
  const std::string core = std::to_string(allowed_.front());
  write("node10", "0-65535");
  write("node2", "70000-80000," + core);
  write("node3", "70000");  // none of its cores is allowed
  write("node4", "");       // memory without cores
  write("node5", "x,-,3-1");
  write("nodes", core);
  write("node7x", core);
  const auto found = memory_domains(folder_);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].node, 2);
  EXPECT_EQ(found[0].cores, std::vector<int>{allowed_.front()});
  EXPECT_EQ(found[1].node, 10);
  EXPECT_EQ(found[1].cores, allowed_);
}

TEST_F(Domains, AreOneWithAllCoresIfTheSystemDoesNotTell) {
  const auto found = memory_domains(folder_);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].cores, allowed_);
}

TEST_F(Domains, TogetherHaveEachCoreOfThisMachineOnce) {
  std::vector<int> cores;
  for (const MemoryDomain& domain : memory_domains()) {
    cores.insert(cores.end(), domain.cores.begin(), domain.cores.end());
  }
  std::ranges::sort(cores);
  EXPECT_EQ(cores, allowed_);
}

TEST(ThreadPlaces, FillTheDomainsInOrderAndInProportion) {
  const std::vector<MemoryDomain> domains = {{0, {0, 1, 2, 3}}, {1, {8, 9}}};
  const auto cores = [&](int threads) {
    std::vector<int> list;
    for (const ThreadPlace& place : thread_places(domains, threads)) list.push_back(place.core);
    return list;
  };
  EXPECT_EQ(cores(6), (std::vector<int>{0, 1, 2, 3, 8, 9}));
  EXPECT_EQ(cores(3), (std::vector<int>{0, 2, 8}));
  EXPECT_EQ(cores(1), (std::vector<int>{0}));
  EXPECT_EQ(cores(12), (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9, 9}));
  const auto places = thread_places(domains, 6);
  EXPECT_EQ(places[3].domain, 0);
  EXPECT_EQ(places[4].domain, 1);
  EXPECT_TRUE(thread_places({}, 4).empty());
}

// Two domains share this machine's cores, so that the test runs everywhere.
TEST_F(Domains, HaveTheThreadsOfLoops) {
  const std::vector<MemoryDomain> domains = {{0, allowed_}, {0, {allowed_.back()}}};
  set_num_threads(4);
  bind_threads(domains, 4);
  const auto places = thread_places(domains, 4);
  std::atomic<int> arrived = 0;
  parallel_for(4, [&](int64_t, int thread) {
    for (++arrived; arrived < 4;) std::this_thread::yield();  // all threads take part
    const ThreadPlace& place = places[static_cast<size_t>(thread)];
    EXPECT_EQ(thread_domain(), place.domain);
    EXPECT_EQ(allowed_core_list(), thread == 0 ? allowed_ : std::vector<int>{place.core});
  });
  bind_threads({}, 0);
  parallel_for(64, [&](int64_t) {
    EXPECT_EQ(thread_domain(), 0);
    EXPECT_EQ(allowed_core_list(), allowed_);
  });
}

TEST_F(Domains, RunTasksOnTheirCores) {
  bind_threads({{0, allowed_}, {0, {allowed_.back()}}}, 2);
  std::vector<int> seen;
  run_in_domain(1, [&] { seen = allowed_core_list(); });
  EXPECT_EQ(seen, std::vector<int>{allowed_.back()});
  EXPECT_THROW(run_in_domain(0, [] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(PreferNode, RefusesNodesThatDoNotExist) {
  std::vector<char> memory(size_t{1} << 16);
  EXPECT_FALSE(prefer_node(memory.data(), memory.size(), -1));
  EXPECT_FALSE(prefer_node(memory.data(), memory.size(), 1 << 20));
  EXPECT_FALSE(prefer_node(memory.data(), memory.size(), 1000));
}

}  // namespace
}  // namespace neuronmm
