// Checks how much SBUF and PSUM programs need, and the messages if they need too much.

#include "trainium/tile/memory_use.h"

#include <gtest/gtest.h>

#include "trainium/tile/builder.h"
#include "trainium/tile/checker.h"

namespace neuronmm::tile {
namespace {

// Makes a buffer of `kib` KiB per partition and writes it.
BufferId touch(Builder& b, std::string_view name, int64_t kib, int64_t copies = 1) {
  const BufferId id = b.sbuf(name, DType::kF32, {128, kib * 256}, copies);
  b.zero(at(id, {all(128), all(kib * 256)}));
  return id;
}

TEST(MemoryUse, BuffersOfOneBodyAddUpWithTheirCopies) {
  Builder b("sum");
  const BufferId x = touch(b, "x", 4), y = touch(b, "y", 2, 3);
  b.copy(at(x, {all(128), all(512)}), at(y, {all(128), all(512)}));
  const MemoryUse use = sbuf_use(b.finish());
  EXPECT_EQ(use.peak, (4 + 3 * 2) * 1024);
  ASSERT_EQ(use.live.size(), 2u);
  EXPECT_EQ(use.live[0].buffer, y);
  EXPECT_EQ(use.live[0].amount, 6 * 1024);
  EXPECT_EQ(use.live[1].buffer, x);
}

TEST(MemoryUse, SingleCopiesShareOnceTheyAreDone) {
  Builder b("share");
  touch(b, "x", 4);
  touch(b, "y", 3);
  EXPECT_EQ(sbuf_use(b.finish()).peak, 4 * 1024);
}

TEST(MemoryUse, RotatingCopiesStayToTheEndOfTheirLoop) {
  Builder b("rotate");
  b.loop("m", 8, 1, [&](const Tile&) {
    touch(b, "x", 4, 2);
    touch(b, "y", 3);
  });
  EXPECT_EQ(sbuf_use(b.finish()).peak, (2 * 4 + 3) * 1024);
}

TEST(MemoryUse, StagesInSiblingLoopsShare) {
  Builder b("stages");
  touch(b, "strip", 8);
  const BufferId strip = 0;
  b.loop("k", 4, 1, [&](const Tile&) { touch(b, "u", 3, 2); });
  b.loop("n", 4, 1, [&](const Tile&) {
    const BufferId v = touch(b, "v", 2, 2);
    b.copy(at(v, {all(128), all(512)}), at(strip, {all(128), all(512)}));
  });
  EXPECT_EQ(sbuf_use(b.finish()).peak, (8 + 2 * 3) * 1024);
}

TEST(MemoryUse, PsumCountsWholeBanks) {
  Builder b("psum");
  b.loop("m", 2, 1, [&](const Tile&) {
    b.psum("small", {128, 1}, 3);
    b.psum("large", {128, 513}, 2);
  });
  EXPECT_EQ(psum_use(b.finish()).peak, 3 + 2 * 2);
}

TEST(MemoryUse, CapacityMessageNamesTheBuffers) {
  Builder b("big");
  const BufferId strip = touch(b, "strip", 64), x = touch(b, "x", 32, 2), out = touch(b, "out", 81);
  b.copy(at(out, {all(128), all(1)}), at(x, {all(128), all(1)}));
  b.copy(at(out, {all(128), all(1)}), at(strip, {all(128), all(1)}));
  const CheckReport report = check(b.finish(), {.device = "trn1"});
  EXPECT_TRUE(report.ok());
  ASSERT_EQ(report.over_capacity.size(), 1u);
  EXPECT_EQ(report.over_capacity[0],
            "SBUF needs 26.1 MiB: out 10.1 + strip 8.0 + x 8.0; 22.0 usable on trn1");
}

TEST(MemoryUse, PsumMessageNamesTheBuffers) {
  Builder b("banks");
  b.loop("m", 2, 1, [&](const Tile&) {
    b.psum("first", {128, 512}, 6);
    b.psum("second", {128, 512}, 4);
  });
  const CheckReport report = check(b.finish(), {.device = "trn2"});
  ASSERT_EQ(report.over_capacity.size(), 1u);
  EXPECT_EQ(report.over_capacity[0], "PSUM needs 10 banks: first 6 + second 4; 8 usable on trn2");
}

}  // namespace
}  // namespace neuronmm::tile
