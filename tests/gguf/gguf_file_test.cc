// Tests the reader of GGUF files on legal files and on every kind of broken file that we know.

#include "gguf/gguf_file.h"

#include <functional>

#include <gtest/gtest.h>

#include "gguf/gguf_builder.h"
#include "gguf/gguf_shards.h"
#include "io/io_test.h"

namespace neuronmm::io {
namespace {

Result<GgufFile> parse_gguf(const std::string& bytes) {
  return GgufFile::parse(std::as_bytes(std::span(bytes)), "x.gguf");
}

const std::string kRow(34, '\1');  // A block of Q8_0.

GgufBuilder small_file() {
  GgufBuilder builder;
  builder.text("general.architecture", "llama").u32("n", 7);
  builder.tensor("a", {32, 2}, 8, kRow + kRow).tensor("b", {3}, {1.0f, 2.0f, 3.0f});
  return builder;
}

TEST(GgufFile, ReadsValuesOfEveryType) {
  GgufBuilder builder;
  builder.pair("u8", 0, "\xFF").pair("i8", 1, "\xFF").pair("u16", 2, "\xFE\xFF");
  builder.pair("i16", 3, "\xFE\xFF").u32("u32", 4000000000).pair("i32", 5, little_endian(-5));
  builder.f32("f32", 1e-5f)
      .boolean("yes", true)
      .boolean("no", false)
      .text("s", "gr\xC3\xBC\xC3\x9F");
  builder.pair("u64", 10, little_endian<uint64_t>(1) + "")
      .pair("i64", 11, little_endian<int64_t>(-9));
  builder.pair("f64", 12, little_endian(0.1)).pair("huge", 10, little_endian(~uint64_t{0}));
  builder.texts("words", {"a", "", "c d"}).numbers<int32_t>("ids", 5, {1, -2});
  builder.numbers<float>("scores", 6, {0.5f, -1.0f});
  const std::string nested = little_endian<uint32_t>(9) + little_endian<uint64_t>(1) +
                             little_endian<uint32_t>(0) + little_endian<uint64_t>(2) + "xy";
  builder.pair("nested", 9, nested);
  const std::string bytes = builder.bytes();
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const GgufMetadata& metadata = file->metadata();
  const std::pair<const char*, int64_t> integers[] = {
      {"u8", 255},         {"i8", -1},  {"u16", 65534}, {"i16", -2},
      {"u32", 4000000000}, {"i32", -5}, {"u64", 1},     {"i64", -9}};
  for (const auto& [key, expected] : integers) EXPECT_EQ(**metadata.integer(key), expected) << key;
  // The number is not the nearest fp32 number.
  EXPECT_EQ(**metadata.number("f32"), 1e-5);
  EXPECT_EQ(**metadata.number("f64"), 0.1);
  EXPECT_EQ(**metadata.number("i32"), -5.0);
  EXPECT_TRUE(**metadata.boolean("yes"));
  EXPECT_FALSE(**metadata.boolean("no"));
  EXPECT_EQ(**metadata.string("s"), "gr\xC3\xBC\xC3\x9F");
  EXPECT_EQ(*metadata.strings("words"), (std::vector<std::string_view>{"a", "", "c d"}));
  EXPECT_EQ(*metadata.integers("ids"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(*metadata.numbers("scores"), (std::vector<double>{0.5, -1.0}));
  EXPECT_FALSE(metadata.integer("absent")->has_value());
  EXPECT_TRUE(metadata.has("nested"));
  EXPECT_TRUE(fails_with(metadata.integer("huge"), {"x.gguf", "\"huge\"", "below 2^63"}));
  EXPECT_TRUE(fails_with(metadata.integer("s"), {"\"s\": expected an integer, found \"gr"}));
  EXPECT_TRUE(fails_with(metadata.string("ids"), {"expected a string", "an array of 2 int32"}));
  EXPECT_TRUE(fails_with(metadata.boolean("u8"), {"expected a bool", "uint8 255"}));
}

TEST(GgufFile, ShapesAreOutermostFirst) {
  const std::string bytes = small_file().bytes();
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 2u);
  const GgufTensor &a = file->tensors()[0], &b = file->tensors()[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type->name, "Q8_0");
  EXPECT_EQ(a.shape, (Shape{2, 32}));
  EXPECT_EQ(a.row_bytes(), 34);
  EXPECT_EQ(a.data.size(), 68u);
  EXPECT_EQ(b.shape, (Shape{3}));
  float last;
  std::memcpy(&last, b.data.data() + 8, 4);
  EXPECT_EQ(last, 3.0f);
}

TEST(GgufFile, TensorsMayHaveAnyOrderGapAndAlignment) {
  for (const uint32_t alignment : {8u, 24u, 64u, 4096u}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    builder.u32("general.alignment", alignment);
    builder.info("late", {2}, 0, alignment)
        .info("early", {2}, 0, 0)
        .info("far", {1}, 0, 3 * alignment);
    const std::string bytes = builder.bytes() + std::string(3 * alignment + 4, '\2');
    const auto file = parse_gguf(bytes);
    EXPECT_TRUE(file.ok()) << file.error().message;
  }
}

TEST(GgufFile, EveryTruncationIsAnError) {
  const std::string bytes = small_file().bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    EXPECT_TRUE(fails_with(parse_gguf(cut), {"x.gguf: "})) << length;
  }
}

TEST(GgufFile, OtherVersionsAndByteOrdersAreNamed) {
  const std::pair<uint32_t, std::string_view> cases[] = {
      {0, "version 0"},
      {1, "found version 1 (download a newer file"},
      {4, "version 4"},
      {0x03000000, "big-endian one (version 3)"},
      {0x02000000, "big-endian one (version 2)"}};
  for (const auto& [version, words] : cases) {
    GgufBuilder builder = small_file();
    builder.version = version;
    const std::string bytes = builder.bytes();
    EXPECT_TRUE(fails_with(parse_gguf(bytes), {"x.gguf", "expected", words})) << version;
  }
  EXPECT_TRUE(fails_with(parse_gguf("GGML" + std::string(40, '\0')), {"expected a GGUF file"}));
}

TEST(GgufFile, VersionTwoIsReadLikeVersionThree) {
  GgufBuilder builder = small_file();
  builder.version = 2;
  const std::string bytes = builder.bytes();
  const auto file = parse_gguf(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 2u);
}

// Names and keys take more memory in our tables than in the file, so their numbers are limited.
TEST(GgufFile, HugeCountsThatFitTheFileAreRefused) {
  GgufBuilder many_pairs;
  for (int i = 0; i < 65537; ++i) many_pairs.pair(fmt::format("{}", i), 0, "\1");
  EXPECT_TRUE(fails_with(parse_gguf(many_pairs.bytes()), {"at most 65536 key-value pairs"}));
  GgufBuilder many_tensors = small_file();
  many_tensors.tensor_count = 262145;
  const std::string bytes = many_tensors.bytes() + std::string(41 * 262145, '\0');
  EXPECT_TRUE(fails_with(parse_gguf(bytes), {"at most 262144 tensors, found 262145"}));
}

struct BrokenFile {
  std::string_view words;  // The message must contain these words.
  std::function<void(GgufBuilder&)> damage;
};

TEST(GgufFile, BrokenPartsAreNamed) {
  const std::string long_key(65536, 'k');
  const BrokenFile cases[] = {
      {"tensors", [](GgufBuilder& b) { b.tensor_count = uint64_t{1} << 60; }},
      {"key-value pairs", [](GgufBuilder& b) { b.pair_count = ~uint64_t{0}; }},
      {"\"n\": the key is there twice", [](GgufBuilder& b) { b.u32("n", 1); }},
      {"expected 1 to 65535 bytes, found 0", [](GgufBuilder& b) { b.u32("", 1); }},
      {"found 65536", [&](GgufBuilder& b) { b.u32(long_key, 1); }},
      {"\"t\": expected a value type from 0 to 12, found 13",
       [](GgufBuilder& b) { b.pair("t", 13, "12345678"); }},
      {"\"t\": expected a bool (0 or 1), found 2", [](GgufBuilder& b) { b.pair("t", 7, "\2"); }},
      {"\"t\": expected 1152921504606846976 bytes",
       [](GgufBuilder& b) { b.pair("t", 8, little_endian(uint64_t{1} << 60)); }},
      {"\"t\": 1152921504606846976 of them do not fit",
       [](GgufBuilder& b) {
         b.pair("t", 9, little_endian<uint32_t>(8) + little_endian(uint64_t{1} << 60));
       }},
      {"\"t\": 9223372036854775807 of them do not fit",
       [](GgufBuilder& b) {
         b.pair("t", 9, little_endian<uint32_t>(12) + little_endian(~uint64_t{0} >> 1));
       }},
      {"nested more than",
       [](GgufBuilder& b) {
         std::string value;
         for (int i = 0; i < 2000; ++i)
           value += little_endian<uint32_t>(9) + little_endian<uint64_t>(1);
         b.pair("t", 9, value);
       }},
      {"general.alignment\": expected a multiple of 8, found uint32 0",
       [](GgufBuilder& b) { b.u32("general.alignment", 0); }},
      {"found uint32 20", [](GgufBuilder& b) { b.u32("general.alignment", 20); }},
      {"tensor \"a\" is there twice", [](GgufBuilder& b) { b.tensor("a", {1}, {1.0f}); }},
      {"the name of tensor 2: expected 1 to 64 bytes, found 65",
       [](GgufBuilder& b) { b.tensor(std::string(65, 'n'), {1}, {1.0f}); }},
      {"tensor \"z\": expected 1 to 4 dimensions, found 0",
       [](GgufBuilder& b) { b.tensor("z", {}, {1.0f}); }},
      {"expected 1 to 4 dimensions, found 5",
       [](GgufBuilder& b) {
         b.tensor("z", {1, 1, 1, 1, 1}, {1.0f});
       }},
      {"tensor \"z\": dimension 1: expected 1 to 2^63 - 1, found 0",
       [](GgufBuilder& b) {
         b.tensor("z", {4, 0}, {});
       }},
      {"found 18446744073709551615", [](GgufBuilder& b) { b.tensor("z", {~uint64_t{0}}, {1.0f}); }},
      {"takes 2^63 bytes or more",
       [](GgufBuilder& b) {
         b.tensor("z", {1ull << 32, 1ull << 31, 1ull << 31}, {1.0f});
       }},
      {"tensor \"z\": its type is 77, which is no known type",
       [](GgufBuilder& b) { b.tensor("z", {1}, 77, "abcd"); }},
      {"its type is 31 (Q4_0_4_4), which llama.cpp no longer supports",
       [](GgufBuilder& b) { b.tensor("z", {32}, 31, "abcd"); }},
      {"expected rows of a multiple of 256 weights for Q4_K, found 32",
       [](GgufBuilder& b) {
         b.tensor("z", {32, 8}, 12, std::string(144, '\0'));
       }},
      {"expected an offset that is a multiple of 32, found 100",
       [](GgufBuilder& b) { b.info("z", {1}, 0, 100); }},
      {"tensor \"z\": expected 4 bytes from byte 18446744073709551584",
       [](GgufBuilder& b) { b.info("z", {1}, 0, ~uint64_t{0} - 31); }},
      {"tensors \"a\" and \"z\" overlap", [](GgufBuilder& b) { b.info("z", {1}, 0, 64); }},
      {"overlap", [](GgufBuilder& b) { b.info("z", {1}, 0, 0); }},
  };
  for (const BrokenFile& broken : cases) {
    GgufBuilder builder = small_file();
    broken.damage(builder);
    const std::string bytes = builder.bytes();
    EXPECT_TRUE(fails_with(parse_gguf(bytes), {"x.gguf: ", broken.words}));
  }
}

class GgufShardsTest : public testing::Test {
 protected:
  std::filesystem::path write(int index, int count, const std::string& tensor, int stored_index,
                              int promised = 3) const {
    GgufBuilder builder;
    builder.pair("split.no", 2, little_endian(static_cast<uint16_t>(stored_index)));
    builder.pair("split.count", 2, little_endian<uint16_t>(3));
    builder.pair("split.tensors.count", 5, little_endian<int32_t>(promised));
    if (index == 0) builder.text("general.architecture", "llama");
    builder.tensor(tensor, {1}, {static_cast<float>(index)});
    const auto path = root_ / fmt::format("m-{:05}-of-{:05}.gguf", index + 1, count);
    put(path, builder.bytes());
    return path;
  }
  const TemporaryFolder root_;
};

TEST_F(GgufShardsTest, AnyFileFindsTheOthers) {
  for (int i = 0; i < 3; ++i) write(i, 3, fmt::format("t{}", i), i);
  for (int i = 0; i < 3; ++i) {
    const auto model = GgufShards::open(root_ / fmt::format("m-0000{}-of-00003.gguf", i + 1));
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->tensors().size(), 3u);
    EXPECT_TRUE(model->metadata().has("general.architecture"));
  }
}

TEST_F(GgufShardsTest, FilesOfASetMustFitEachOther) {
  const auto first = write(0, 3, "t0", 0);
  write(1, 3, "t1", 1);
  EXPECT_TRUE(fails_with(GgufShards::open(first),
                         {"m-00003-of-00003.gguf: part 3 of 3 is missing; download it"}));
  write(2, 3, "t1", 2);
  EXPECT_TRUE(fails_with(GgufShards::open(first), {"m-00003", "\"t1\" is in an earlier file"}));
  write(2, 3, "t2", 1);
  EXPECT_TRUE(fails_with(GgufShards::open(first), {"m-00003", "split.no", "expected 2"}));
  write(2, 3, "t2", 2);
  write(0, 3, "t0", 0, /*promised=*/4);
  EXPECT_TRUE(fails_with(GgufShards::open(first), {"split.tensors.count", "3 tensors", "int32 4"}));
  const auto renamed = root_ / "renamed.gguf";
  std::filesystem::copy_file(first, renamed);
  EXPECT_TRUE(fails_with(GgufShards::open(renamed), {"part 1 of 3", "-00001-of-00003.gguf"}));
}

}  // namespace
}  // namespace neuronmm::io
