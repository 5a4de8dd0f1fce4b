// This test checks what a progress report writes to a pipe, and that a silent one writes nothing.

#include "base/progress.h"

#include <cstdio>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Stream = std::unique_ptr<std::FILE, FileCloser>;

std::string contents(const Stream& stream) {
  std::fflush(stream.get());
  std::rewind(stream.get());
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stream.get()));
  return text;
}

TEST(Progress, APipeGetsFewLinesWithoutControlCharacters) {
  const Stream stream(std::tmpfile());
  {
    Progress progress(stream.get());
    progress.start("layers", 1000);
    for (int i = 1; i <= 1000; ++i) progress.update(i, "gate");
    progress.print("a line");
  }
  // The interval has not passed yet, so only the last step is reported.
  EXPECT_EQ(contents(stream), "layers 1000/1000  gate\na line\n");
}

TEST(Progress, SilentPrintsNothingAnywhere) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    Progress progress;
    progress.start("layers", 2);
    progress.update(1, "gate");
    progress.update(2);
    progress.print("a line");
  }
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, AnEmptyTaskHasNoDivisionByZero) {
  const Stream stream(std::tmpfile());
  {
    Progress progress(stream.get());
    progress.start("nothing", 0);
    progress.update(0);
  }
  EXPECT_EQ(contents(stream), "nothing 0/0\n");
}

}  // namespace
}  // namespace neuronmm
