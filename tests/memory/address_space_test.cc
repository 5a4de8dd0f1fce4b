// Tests that no limit of the address space (ulimit -v) ends a command by a signal or leaves half an
// output. Each command runs under growing limits, from the least in which the program starts at all
// to one that is enough. With NEURONMM_FAULTS=all the limits are a twentieth apart, and otherwise
// a factor of 2.

#include <fmt/format.h>

#include "memory/limited_program.h"

namespace neuronmm::memory {
namespace {

using AddressSpace = CommandWithLittleMemory;

TEST_P(AddressSpace, EachLimitGivesTheResultOrOneMessage) {
  static const rlim_t least = least_address_space(root_.path());
  const double factor = run_all() ? 1.05 : 2.0;
  const auto most = static_cast<double>(rlim_t{8} << 30);
  for (double limit = static_cast<double>(least);; limit *= factor) {
    Launch limited = launch();
    limited.address_space = static_cast<rlim_t>(limit);
    const Ended ended = run(limited);
    expect_whole_or_nothing(ended, fmt::format("{} under {:.0f} bytes", limited.arguments, limit));
    if (ended.exit_code == 0) return;
    if (HasFailure()) return;
    ASSERT_LT(limit, most) << ended.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Limits, AddressSpace, testing::ValuesIn(kCommands), name_of);

}  // namespace
}  // namespace neuronmm::memory
