// This test raises signals and checks what the handlers do with them.

#include "base/interrupt.h"

#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

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

// The loop runs twice, because the second Ctrl-C would end the process if the first had not been
// taken back.
TEST(Interrupt, AfterAForgottenInterruptTheNextIsTheFirst) {
  install_interrupt_handler();
  for (int i = 0; i < 2; ++i) {
    std::raise(SIGINT);
    EXPECT_TRUE(interrupted());
    EXPECT_TRUE(forget_interrupt());
    EXPECT_FALSE(interrupted());
  }
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void terminate_and_take_back() {
  install_interrupt_handler();
  std::raise(SIGTERM);
  const bool taken = forget_interrupt();
  _exit(!taken && interrupted() ? 7 : 1);
}

TEST(InterruptDeathTest, SigtermIsNotForgotten) {
  EXPECT_EXIT(terminate_and_take_back(), testing::ExitedWithCode(7), "");
}

// A terminal that is closed may send SIGHUP more than once, and the first one is being obeyed.
void hang_up_twice() {
  install_interrupt_handler();
  std::raise(SIGHUP);
  std::raise(SIGHUP);
  _exit(interrupted() && !forget_interrupt() ? 7 : 1);
}

TEST(InterruptDeathTest, HangingUpInterrupts) {
  EXPECT_EXIT(hang_up_twice(), testing::ExitedWithCode(7), "");
}

void hang_up_under_nohup() {
  std::signal(SIGHUP, SIG_IGN);
  install_interrupt_handler();
  std::raise(SIGHUP);
  _exit(interrupted() ? 1 : 7);
}

TEST(InterruptDeathTest, NohupKeepsTheProgramRunning) {
  EXPECT_EXIT(hang_up_under_nohup(), testing::ExitedWithCode(7), "");
}

void raise_three_times() {
  install_interrupt_handler();
  const OrderlyShutdown end;
  std::raise(SIGTERM);
  if (!interrupted() || end.must_stop_now()) _exit(1);
  std::raise(SIGINT);
  if (!end.must_stop_now()) _exit(2);
  std::raise(SIGTERM);
}

TEST(InterruptDeathTest, TheThirdSignalEndsAnOrderlyShutdown) {
  EXPECT_EXIT(raise_three_times(), testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, ErrorSaysWhatIsKept) {
  const Error error = interrupted_error("3 layers are kept");
  EXPECT_EQ(error.message, "interrupted: 3 layers are kept");
  EXPECT_EQ(error.kind, Error::Kind::kInterrupted);
}

}  // namespace
}  // namespace neuronmm
