#include "base/interrupt.h"

#include <csignal>

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

TEST(Interrupt, SignalSetsTheFlagOnce) {
  set_interrupted(false);
  install_interrupt_handler();
  EXPECT_FALSE(interrupted());
  std::raise(SIGINT);
  EXPECT_TRUE(interrupted());
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  set_interrupted(false);
  EXPECT_FALSE(interrupted());
}

void raise_twice() {
  install_interrupt_handler();
  std::raise(SIGTERM);
  std::raise(SIGTERM);
}

TEST(InterruptDeathTest, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(raise_twice(), testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, ErrorSaysWhatIsKept) {
  const Error error = interrupted_error("3 layers are kept");
  EXPECT_EQ(error.message, "interrupted: 3 layers are kept");
  EXPECT_EQ(error.kind, Error::Kind::kInterrupted);
}

}  // namespace
}  // namespace neuronmm
