// Checks that damaged, foreign and hostile traces give an error that says where, and never a crash.

#include "trainium/trace/file.h"

#include <cstring>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "trainium/devices.h"
#include "trainium/trace/simulate.h"
#include "trainium/trace/trace_writer.h"

namespace neuronmm::trace {
namespace {

using simulator::kTrn2;
using Json = TraceWriter::Json;

// Returns a trace that loads a tile, makes a view of it, multiplies it by itself, evicts and
// stores.
TraceWriter small() {
  TraceWriter w;
  const uint32_t x = w.input("x", "bf16", {128, 128});
  const uint32_t y = w.output("y", "bf16", {128, 128});
  w.header()["loops"].push_back({{"name", "i"}, {"kind", "affine"}, {"count", 1}, {"source", 0}});
  w.loop(3, 0, 9);
  w.loop(4, 0, 9);
  const uint32_t tile = w.tensor("tile", "sbuf", "bf16", {128, 128}, 10);
  const uint32_t bytes = w.view(tile, "bytes", "sbuf", "u8", {128, 128}, 128, 11);
  const uint32_t sums = w.tensor("sums", "psum", "fp32", {128, 128}, 12, 2048);
  w.run("dma_copy", "dma", {{"dst", w.all(tile)}, {"src", w.all(x)}}, 13);
  w.run("memset", "any", {{"dst", w.all(bytes)}}, 14);
  w.run("nc_matmul", "tensor",
        {{"dst", w.all(sums)}, {"stationary", w.all(tile)}, {"moving", w.all(tile)}}, 15);
  const uint32_t out = w.tensor("out", "sbuf", "bf16", {128, 128}, 16);
  w.run("tensor_copy", "any", {{"dst", w.all(out)}, {"src", w.all(sums)}}, 17);
  w.run("dma_copy", "dma", {{"dst", w.all(y)}, {"src", w.all(out)}}, 18);
  w.release(tile, 19);
  w.loop(5, 0, 9);
  return w;
}

Status run(const std::vector<std::byte>& bytes) {
  NMM_ASSIGN(const TraceFile file, TraceFile::parse(bytes, "k.trace"));
  NMM_ASSIGN(const TraceTiming timing, simulate(file, kTrn2));
  EXPECT_GT(timing.timing.summary.total_time, 0);
  return {};
}

std::string message(const std::vector<std::byte>& bytes) {
  const Status status = run(bytes);
  return status.ok() ? "" : status.error().message;
}

// Returns the error of the small trace with a changed header.
std::string message_with(const std::function<void(Json&)>& change) {
  TraceWriter w = small();
  const std::vector<std::byte> bytes = w.finish();
  uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + 12, 4);
  Json header = Json::parse(reinterpret_cast<const char*>(bytes.data()) + 16,
                            reinterpret_cast<const char*>(bytes.data()) + 16 + header_bytes);
  change(header);
  return message(TraceWriter::file(header.dump(), w.records()));
}

TEST(TraceFile, AValidTraceIsRead) {
  const std::vector<std::byte> bytes = small().finish();
  const auto file = TraceFile::parse(bytes, "k.trace");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const Header& header = file->header();
  EXPECT_EQ(header.kernel, "test");
  EXPECT_EQ(header.instructions, 5);
  EXPECT_EQ(header.instances, 6);
  ASSERT_EQ(header.operations.size(), 4u);  // Load and store are one operation.
  EXPECT_EQ(header.operations[0].name, "dma_copy");
  EXPECT_EQ(header.location(header.tensors[2].source), "kernel.py:10");
  EXPECT_EQ(message(bytes), "");
}

TEST(TraceFile, OtherFilesAndVersionsAreRefused) {
  EXPECT_EQ(message({}), "k.trace: not a kernel trace: expected NMMTRACE at its begin");
  std::vector<std::byte> bytes = small().finish();
  bytes[0] = std::byte{'X'};
  EXPECT_EQ(message(bytes), "k.trace: not a kernel trace: expected NMMTRACE at its begin");
  bytes = small().finish();
  bytes[8] = std::byte{7};
  EXPECT_EQ(message(bytes), "k.trace: byte 8: expected version 1 of the trace format, found 7");
}

TEST(TraceFile, AFileThatIsCutOffAnywhereIsRefused) {
  const std::vector<std::byte> whole = small().finish();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string error = message({whole.begin(), whole.begin() + static_cast<long>(size)});
    ASSERT_TRUE(error.starts_with("k.trace: ")) << size << ": " << error;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_NE(message(longer).find("something follows"), std::string::npos) << message(longer);
}

// Any byte may have any value. The result is an error that names the file, or a trace that can be
// simulated.
TEST(TraceFile, DamageAnywhereNeverCrashes) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::byte> whole = small().finish();
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = whole;
    for (int n = std::uniform_int_distribution<int>(1, 4)(random); n > 0; --n) {
      bytes[std::uniform_int_distribution<size_t>(0, bytes.size() - 1)(random)] =
          static_cast<std::byte>(random());
    }
    const Status status = run(bytes);
    ASSERT_TRUE(status.ok() || status.error().message.starts_with("k.trace: "));
  }
}

// Only the records are damaged here, with values that the header does not protect against.
TEST(TraceFile, DamagedRecordsNeverCrash) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  TraceWriter w = small();
  const std::vector<std::byte> whole = w.finish();
  const size_t records = whole.size() - w.records().size();
  const std::vector<uint64_t> numbers = {
      0,         1,          2,          127,       128,
      1u << 16,  0x7fffffff, 0xffffffff, INT64_MAX, static_cast<uint64_t>(INT64_MIN),
      UINT64_MAX};
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::byte> bytes = whole;
    const size_t size = i % 2 == 0 ? 4 : 8;
    const size_t words = (bytes.size() - records) / size;
    const size_t at = records + size * std::uniform_int_distribution<size_t>(0, words - 1)(random);
    const uint64_t number =
        numbers[std::uniform_int_distribution<size_t>(0, numbers.size() - 1)(random)];
    std::memcpy(bytes.data() + at, &number, size);
    const Status status = run(bytes);
    ASSERT_TRUE(status.ok() || status.error().message.starts_with("k.trace: "));
  }
}

TEST(TraceFile, ErrorsOfTheHeaderNameTheField) {
  EXPECT_EQ(message(TraceWriter::file("{", {})).substr(0, 16), "k.trace: header:");
  EXPECT_EQ(message_with([](Json& h) { h["dialect"] = "cuda"; }),
            "k.trace: header: \"dialect\": expected one of nki, neuronxcc, found \"cuda\"");
  EXPECT_EQ(message_with([](Json& h) { h["tensors"][2]["memory"] = "dram"; }),
            "k.trace: header: \"tensors\"[2]: \"memory\": expected one of hbm, sbuf, psum, found "
            "\"dram\"");
  EXPECT_EQ(message_with([](Json& h) {
              h["tensors"][2]["shape"] = {129, 4};
            }),
            "k.trace: header: \"tensors\"[2]: tile: expected at most 128 partitions as the first "
            "dimension, found [129, 4]");
  EXPECT_EQ(message_with([](Json& h) {
              h["tensors"][0]["shape"] = {1 << 30, 1 << 30};
            }),
            "k.trace: header: \"tensors\"[0]: \"shape\": more than 2^46 elements: [1073741824, "
            "1073741824]");
  EXPECT_NE(message_with([](Json& h) { h["tensors"][0]["dtype"] = "fp12"; }).find("found 'fp12'"),
            std::string::npos);
  EXPECT_EQ(message_with([](Json& h) { h["tensors"][0]["source"] = 99; }),
            "k.trace: header: \"tensors\"[0]: source 99 of 12");
  EXPECT_EQ(message_with([](Json& h) { h["rotates"] = {{"tile", 2}}; }), "");
  EXPECT_NE(message_with([](Json& h) {
              h["rotates"] = {{"tile", 0}};
            }).find("\"rotates\""),
            std::string::npos);
  EXPECT_NE(message_with([](Json& h) { h["rotates"] = Json::array({1}); }).find("an object"),
            std::string::npos);
  EXPECT_EQ(message_with([](Json& h) { h["sources"][0][0] = 1; }),
            "k.trace: header: \"sources\"[0]: file 1 of 1");
  EXPECT_NE(message_with([](Json& h) { h["patterns"][0][0][1] = 0; }).find("counts of at least 1"),
            std::string::npos);
  EXPECT_EQ(message_with([](Json& h) { h["operations"][1]["name"] = "warp_shuffle"; }),
            "k.trace: operation warp_shuffle: not one of nki.isa that is modelled");
  EXPECT_EQ(message_with([](Json& h) { h.erase("counts"); }),
            "k.trace: header: \"counts\" is missing");
  EXPECT_EQ(message_with([](Json& h) { h["counts"]["instructions"] = 100'000'000; }),
            "k.trace: 100000000 instructions; at most 50000000 are simulated");
}

TEST(TraceFile, RecordsMustAgreeWithTheHeader) {
  EXPECT_NE(message_with([](Json& h) {
              h["counts"]["instructions"] = 6;
            }).find("expected 6 instructions in all, found 5"),
            std::string::npos);
  EXPECT_NE(message_with([](Json& h) {
              h["counts"]["instructions"] = 4;
            }).find("expected 4 instructions in all, found more"),
            std::string::npos);
  EXPECT_NE(message_with([](Json& h) {
              h["operations"][0]["operands"] = {"dst"};
            }).find("dma_copy: expected 1 operands, found 2"),
            std::string::npos);
  EXPECT_NE(message_with([](Json& h) {
              h["tensors"][2]["shape"] = {128, 64};
            }).find("bytes: 128 bytes from byte 128 on do not lie inside tile"),
            std::string::npos);
  EXPECT_NE(message_with([](Json& h) {
              h["patterns"][0] = {{1, 20000}};
            }).find("tile: expected an offset in [0, -3615) for pattern 0, found 0"),
            std::string::npos)
      << message_with([](Json& h) {
           h["patterns"][0] = {{1, 20000}};
         });
  EXPECT_NE(message_with([](Json& h) {
              h["patterns"][0] = {{0, 129}, {1, 128}};
            }).find("tile: expected at most 128 partitions in pattern 0, found 129"),
            std::string::npos);
}

TEST(TraceFile, ErrorsNameTheByte) {
  TraceWriter w = small();
  std::vector<std::byte> bytes = w.finish();
  const size_t records = bytes.size() - w.records().size();
  bytes[records] = std::byte{9};
  EXPECT_EQ(message(bytes),
            fmt::format("k.trace: byte {}: expected a record of kind 0 to 5, found 9", records));
}

TEST(TraceFile, AMissingFileIsNamed) {
  EXPECT_NE(TraceFile::open("/no/such.trace").error().message.find("/no/such.trace"),
            std::string::npos);
}

}  // namespace
}  // namespace neuronmm::trace
