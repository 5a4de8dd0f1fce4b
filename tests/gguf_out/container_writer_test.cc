// Tests the container against its reader, and the bytes against a file that is written by hand.

#include "gguf_out/container_writer.h"

#include <gtest/gtest.h>

#include "gguf/gguf_builder.h"
#include "gguf/gguf_file.h"
#include "io/io_test.h"

namespace neuronmm::gguf_out {
namespace {

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

TEST(ContainerWriter, FilesAreThoseOfTheDescription) {
  const io::TemporaryFolder root;
  Pairs pairs;
  pairs.text("general.architecture", "llama");
  pairs.u32("a", 7);
  pairs.u32("a", 8);  // The first value stays.
  pairs.f32("b", 0.5);
  pairs.boolean("c", true);
  pairs.i32s("d", std::vector<int64_t>{-1, 2});
  pairs.f32s("e", std::vector<float>{1.5f});
  pairs.texts("f", std::vector<std::string>{"x", "", "yz"});
  pairs.booleans("g", {true, false});
  const std::vector<float> vector = {1, 2, 3}, matrix = {1, 2, 3, 4, 5, 6};
  auto writer = ContainerWriter::create(
      root / "m.gguf", pairs,
      {{"vector", BlockType::kF32, {3}}, {"matrix", BlockType::kF32, {2, 3}}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->append(bytes_of(vector)).ok() && writer->end_tensor().ok());
  // A tensor may come in pieces.
  ASSERT_TRUE(writer->append(bytes_of(matrix).first(10)).ok());
  ASSERT_TRUE(writer->append(bytes_of(matrix).subspan(10)).ok() && writer->end_tensor().ok());
  EXPECT_FALSE(std::filesystem::exists(root / "m.gguf"));
  ASSERT_TRUE(writer->finish().ok());

  io::GgufBuilder expected;
  expected.text("general.architecture", "llama").u32("a", 7).f32("b", 0.5f).boolean("c", true);
  expected.numbers<int32_t>("d", 5, {-1, 2}).numbers<float>("e", 6, {1.5f});
  expected.texts("f", {"x", "", "yz"}).numbers<uint8_t>("g", 7, {1, 0});
  expected.tensor("vector", {3}, vector).tensor("matrix", {3, 2}, matrix);
  std::string wanted = expected.bytes();
  wanted.resize((wanted.size() + 31) / 32 * 32, '\0');  // also behind the last tensor
  EXPECT_TRUE(io::get(root / "m.gguf") == wanted);
  EXPECT_TRUE(io::GgufFile::open(root / "m.gguf").ok());
}

TEST(ContainerWriter, AnUnfinishedFileLeavesNothing) {
  const io::TemporaryFolder root;
  {
    auto writer = ContainerWriter::create(root / "m.gguf", {}, {{"v", BlockType::kF32, {3}}});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(bytes_of({1, 2, 3})).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
}

}  // namespace
}  // namespace neuronmm::gguf_out
