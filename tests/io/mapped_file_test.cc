// Tests the message for a mapped file that becomes shorter.

#include "io/mapped_file.h"

#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

TEST(MappedFileDeathTest, AFileThatShrinksIsNamed) {
  const TemporaryFolder folder;
  put(folder / "weights", std::string(1 << 16, 'x'));
  const auto touch_after_it_shrank = [&] {
    guard_mapped_reads();
    const auto file = MappedFile::open(folder / "weights");
    fs::resize_file(folder / "weights", 10);
    volatile std::byte last = file.value()->bytes().back();
    static_cast<void>(last);
  };
  EXPECT_EXIT(touch_after_it_shrank(), testing::ExitedWithCode(1), "weights: became shorter");
}

}  // namespace
}  // namespace neuronmm::io
