// Tests that no failed allocation ends a command by a signal or leaves half an output. Each command
// runs with single failed allocations, and with many failures in a row, which use up the program's
// reserve (apps/memory_reserve.h). With NEURONMM_FAULTS=all a few hundred allocations of each
// command fail, and otherwise a few. Each day chooses others.

#include "memory/allocation_faults.h"

#include <random>

#include <fmt/format.h>
#include <sys/mman.h>

#include "memory/limited_program.h"

namespace neuronmm::memory {
namespace {

class FailedAllocations : public CommandWithLittleMemory {
 protected:
  FailedAllocations() {
    const std::string path = control_ / "allocations";
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(ftruncate(file, sizeof(AllocationFaults)), 0);
    void* const memory =
        mmap(nullptr, sizeof(AllocationFaults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    faults_ = static_cast<AllocationFaults*>(memory);
  }
  ~FailedAllocations() override { munmap(faults_, sizeof(AllocationFaults)); }

  Ended run_with_faults(long first, long count) {
    faults_->calls = 0;
    faults_->first = first;
    faults_->count = count;
    Launch faulted = launch();
    faulted.environment.emplace_back("LD_PRELOAD", NEURONMM_FAILING_ALLOCATOR);
    faulted.environment.emplace_back("NEURONMM_ALLOCATIONS", control_ / "allocations");
    return run(faulted);
  }

  const io::TemporaryFolder control_;
  AllocationFaults* faults_ = nullptr;
};

TEST_P(FailedAllocations, GiveTheResultOrOneMessage) {
  const Ended undisturbed = run_with_faults(0, 0);
  ASSERT_EQ(undisturbed.exit_code, 0) << undisturbed.output;
  expect_whole_or_nothing(undisturbed, "undisturbed");
  const long calls = faults_->calls;
  const auto seed = static_cast<unsigned>(time(nullptr) / 86400);
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::uniform_int_distribution<long> choose(1, calls);
  for (int i = 0; i < (run_all() ? 100 : 2) && !HasFailure(); ++i) {
    for (const long count : {1L, 1000L}) {
      const long first = choose(random);
      const Ended ended = run_with_faults(first, count);
      expect_whole_or_nothing(
          ended, fmt::format("allocations {} to {} of {} failed", first, first + count - 1, calls));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, FailedAllocations, testing::ValuesIn(kCommands), name_of);

}  // namespace
}  // namespace neuronmm::memory
