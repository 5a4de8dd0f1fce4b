// The tests in this file kill one of several processes in any phase of a command. All other
// processes end soon, with a message that names the lost one. The output is complete or does not
// exist.

#include <cstdlib>
#include <random>
#include <string>

#include "launched_program.h"

namespace neuronmm::apps {
namespace {

// The flags of mpirun: none, or those that docs/guide/several_processes.md advises. With the latter
// the processes end themselves.
const std::string kNoFlags = "", kAdvisedFlags = "--mca orte_abort_on_non_zero_status 0 ";

const std::string kFlags = " --threads 1 --link messages --link-timeout 5";
const std::string kGenerate =
    "generate " + kDemo + " --prompt-file prompt --max-new-tokens 12 --temperature 0" + kFlags;
const std::string kPerplexity =
    "perplexity " + kDemo + " " + kDemo + "/evaluation.txt --limit 4" + kFlags;
const std::string kCompress = "compress " + kDemo + " --calibration " + kDemo +
                              "/calibration.txt --calibration-tokens 10000 --form uv --method "
                              "whitened --ratio 0.3 --block 16 -o out" +
                              kFlags;

class KilledProcess : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (const std::string why = why_no_launch(); !why.empty()) GTEST_SKIP() << why;
    std::string words;
    for (int i = 0; i < 40; ++i) words += "Once upon a time there was a little ";
    prompt_ = write("prompt", words);
  }
  std::string command(std::string text) const {
    const size_t at = text.find("--prompt-file prompt");
    if (at != std::string::npos) text.replace(at, 20, "--prompt-file " + prompt_);
    return text;
  }
  std::string preloaded(const std::string& variable) const {
    return "-x LD_PRELOAD=" NEURONMM_KILL_AT_MESSAGE " -x " + variable + " ";
  }
  // Returns the number of messages that the last process sends.
  long count_messages(const std::string& text, int processes) const {
    const std::string file = path("count");
    LaunchedProgram undisturbed(folder_.string(), processes,
                                kNoFlags + preloaded("COUNT_MESSAGES=" + file), command(text));
    EXPECT_EQ(undisturbed.wait_for_exit(std::chrono::seconds(120)), 0) << undisturbed.output();
    return std::atol(read(file).c_str());
  }
  // The output is complete if the process was killed when all processes were already ending.
  static void expect_complete_or_absent(const LaunchedProgram& killed) {
    const std::string out = killed.folder() + "/out";
    EXPECT_TRUE(!std::filesystem::exists(out) || !std::filesystem::exists(out + ".partial"))
        << killed.output();
  }
  void expect_end(const std::string& launcher, const std::string& text, int processes,
                  long message) const {
    SCOPED_TRACE(fmt::format("[{}] {}: {} processes, killed at message {}", launcher, text,
                             processes, message));
    LaunchedProgram killed(folder_.string(), processes,
                           launcher + preloaded(fmt::format("KILL_AT_MESSAGE={}", message)),
                           command(text));
    // With the advised flags mpirun does not end the others, nor does it notice when all have
    // ended.
    if (launcher == kAdvisedFlags && message == 0) {
      EXPECT_TRUE(killed.eventually_prints("processes have not met within 5 s")) << killed.output();
      EXPECT_TRUE(killed.all_processes_end());
      EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] {
        return killed.exit_code_of_first() == 1;
      })) << killed.output();
      return;
    }
    const auto code = killed.wait_for_exit(std::chrono::seconds(60));
    ASSERT_TRUE(code.has_value()) << killed.output();
    EXPECT_NE(*code, 0) << killed.output();
    EXPECT_TRUE(killed.all_processes_end());
    expect_complete_or_absent(killed);
    if (launcher == kNoFlags) return;  // mpirun names the lost process itself
    // The code is 130 if another process noticed the loss first and ended all of them.
    const int first = killed.exit_code_of_first();
    EXPECT_TRUE(first == 1 || first == 130) << first << ": " << killed.output();
    const std::string lost = fmt::format("process {} of {} on ", processes - 1, processes);
    EXPECT_NE(killed.output().find(lost), std::string::npos) << killed.output();
  }
  // Kills the process when MPI starts, when the processes meet, when the model is opened and at the
  // last message, and then at `random_kills` random messages.
  void expect_ends(const std::string& text, int processes, int random_kills) const {
    const uint64_t seed = std::random_device{}();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const long count = count_messages(text, processes);
    ASSERT_GT(count, 8);
    for (const long message : {0L, 1L, 7L, count})
      expect_end(kAdvisedFlags, text, processes, message);
    for (int i = 0; i < random_kills; ++i) {
      expect_end(i % 3 == 0 ? kNoFlags : kAdvisedFlags, text, processes,
                 1 + static_cast<long>(random() % static_cast<uint64_t>(count)));
    }
  }

 private:
  std::string prompt_;
};

TEST_F(KilledProcess, GenerateEndsCleanly) { expect_ends(kGenerate, 3, 4); }

TEST_F(KilledProcess, PerplexityEndsCleanly) { expect_ends(kPerplexity, 2, 3); }

TEST_F(KilledProcess, CompressEndsCleanly) { expect_ends(kCompress, 2, 4); }

// The killed process has no work at this time; it waits for process 0.
TEST_F(KilledProcess, CompressEndsCleanlyWhileItWritesTheFolder) {
  for (const std::string& launcher : {kNoFlags, kAdvisedFlags}) {
    SCOPED_TRACE(launcher);
    LaunchedProgram killed(folder_.string(), 2, launcher, command(kCompress));
    const std::string partial = killed.folder() + "/out.partial";
    ASSERT_TRUE(wait_until(std::chrono::seconds(60), [&] {
      return std::filesystem::exists(partial + "/model");
    })) << killed.output();
    killed.signal(1, SIGKILL);
    const auto code = killed.wait_for_exit(std::chrono::seconds(60));
    ASSERT_TRUE(code.has_value()) << killed.output();
    EXPECT_TRUE(killed.all_processes_end());
    expect_complete_or_absent(killed);
  }
}

}  // namespace
}  // namespace neuronmm::apps
