// Tests reading safetensors, with every kind of wrong file.

#include "io/safetensors.h"

#include <unistd.h>

#include "io_test.h"

namespace neuronmm::io {
namespace {

Result<SafetensorsFile> file_of(const std::string& bytes) {
  return SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "x.safetensors");
}

std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + rest;
}

// Parses a file with one tensor "w" of these fields, and `data_bytes` of data.
Result<SafetensorsFile> parse_tensor(const std::string& fields, size_t data_bytes) {
  return file_of(safetensors_bytes("{\"w\":{" + fields + "}}", data_bytes));
}

TEST(Safetensors, ReadsValuesShapesAndMetadata) {
  std::string bytes = safetensors_bytes(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},)"
      R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}} )",
      9);
  const float values[] = {1.5f, -2.0f};
  std::memcpy(bytes.data() + bytes.size() - sizeof(values), values, sizeof(values));
  const auto file = file_of(bytes);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors().at("a").shape, Shape{});
  float read[2];
  // The tensor begins at byte 1 of the data, so it is unaligned.
  to_floats(file->tensors().at("b"), 0, 2, read);
  EXPECT_EQ(read[0], 1.5f);
  EXPECT_EQ(read[1], -2.0f);
}

TEST(Safetensors, AcceptsNoTensorsAndEmptyTensors) {
  EXPECT_TRUE(file_of(safetensors_bytes("{}")).ok());
  const auto file =
      file_of(safetensors_bytes(R"({"z":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
                                R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                4));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().at("z").size(), 0);
}

TEST(Safetensors, RefusesBadLengths) {
  EXPECT_TRUE(fails_with(file_of(""), {"x.safetensors", "8 bytes", "found 0", "incomplete"}));
  EXPECT_TRUE(fails_with(file_of("1234567"), {"found 7", "incomplete"}));
  EXPECT_TRUE(fails_with(file_of(with_length(uint64_t{1} << 60, "{}")),
                         {"header length", "100000000", "1152921504606846976"}));
  EXPECT_TRUE(fails_with(file_of(with_length(~uint64_t{0}, "{}")), {"header length"}));
  EXPECT_TRUE(fails_with(file_of(with_length(100'000'001, "{}")), {"100000001"}));
  EXPECT_TRUE(fails_with(file_of(with_length(100'000'000, "{}")),
                         {"ends at byte 100000008", "at byte 10", "incomplete"}));
  EXPECT_TRUE(fails_with(file_of("version https://git-lfs.github.com/spec/v1\n"), {"Git LFS"}));
}

TEST(Safetensors, RefusesBadJson) {
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes("")), {"header", "malformed JSON"}));
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes("{")), {"header", "malformed JSON"}));
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes("{}{}")), {"malformed JSON"}));
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes("{\"\xFF\":{}}")), {"malformed JSON"}));
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes("[]")), {"expected a JSON object", "array"}));
  EXPECT_TRUE(fails_with(
      file_of(safetensors_bytes(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                R"("w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})")),
      {"\"w\"", "twice"}));
  EXPECT_TRUE(fails_with(parse_tensor(R"("shape":[1],"shape":[1])", 0), {"\"shape\"", "twice"}));
}

TEST(Safetensors, RefusesDeepNestingWithoutRecursion) {
  EXPECT_TRUE(
      fails_with(file_of(safetensors_bytes(std::string(1'000'000, '['))), {"nested deeper"}));
}

TEST(Safetensors, RefusesBadMetadata) {
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes(R"({"__metadata__":3})")),
                         {"__metadata__", "an object", "found 3"}));
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes(R"({"__metadata__":{"format":1}})")),
                         {"__metadata__", "\"format\"", "a string", "found 1"}));
}

TEST(Safetensors, RefusesEntriesOfTheWrongForm) {
  EXPECT_TRUE(fails_with(file_of(safetensors_bytes(R"({"w":7})")), {"\"w\"", "an object", "7"}));
  EXPECT_TRUE(fails_with(parse_tensor(R"("shape":[1],"data_offsets":[0,1])", 1),
                         {"\"w\"", "dtype", "missing"}));
  EXPECT_TRUE(fails_with(parse_tensor(R"("dtype":"U8","data_offsets":[0,1])", 1),
                         {"\"w\"", "shape", "missing"}));
  EXPECT_TRUE(fails_with(parse_tensor(R"("dtype":"U8","shape":[1])", 1),
                         {"\"w\"", "data_offsets", "missing"}));
  EXPECT_TRUE(fails_with(parse_tensor(R"("dtype":5,"shape":[1],"data_offsets":[0,1])", 1),
                         {"\"w\"", "dtype", "a string", "5"}));
}

TEST(Safetensors, RefusesOtherDTypesByName) {
  for (const std::string dtype : {"F8_E5M2", "BOOL", "U16", "U32", "U64", "I16", "f32"}) {
    const std::string fields = R"("dtype":")" + dtype + R"(","shape":[1],"data_offsets":[0,1])";
    EXPECT_TRUE(fails_with(parse_tensor(fields, 1), {"\"w\"", "BF16", "\"" + dtype + "\""}));
  }
}

TEST(Safetensors, RefusesImpossibleShapes) {
  const auto with_shape = [](const std::string& shape) {
    return parse_tensor(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":[0,4])", 4);
  };
  EXPECT_TRUE(fails_with(with_shape("1"), {"\"w\"", "shape", "a list", "found 1"}));
  EXPECT_TRUE(fails_with(with_shape("[-1]"), {"shape", "found -1"}));
  EXPECT_TRUE(fails_with(with_shape("[1.0]"), {"shape", "found 1.0"}));
  EXPECT_TRUE(fails_with(with_shape("[\"1\"]"), {"shape", "found \"1\""}));
  EXPECT_TRUE(fails_with(with_shape("[9223372036854775808]"), {"shape", "9223372036854775808"}));
  EXPECT_TRUE(fails_with(with_shape("[4294967296,4294967296]"), {"does not fit"}));
  // An element has 4 bytes.
  EXPECT_TRUE(fails_with(with_shape("[9223372036854775807]"), {"does not fit"}));
  // The number of elements is 0 modulo 2^64.
  EXPECT_TRUE(fails_with(with_shape("[4294967296,4294967296,1]"), {"does not fit"}));
}

TEST(Safetensors, RefusesOffsetsThatDoNotMatchTheShape) {
  const auto with_offsets = [](const std::string& offsets, size_t data_bytes = 8) {
    return parse_tensor(R"("dtype":"F32","shape":[2],"data_offsets":)" + offsets, data_bytes);
  };
  EXPECT_TRUE(with_offsets("[0,8]").ok());
  EXPECT_TRUE(fails_with(with_offsets("[0,4]"), {"\"w\"", "[2] takes 8 bytes", "found 4"}));
  EXPECT_TRUE(fails_with(with_offsets("[8,0]"), {"\"w\"", "begin <= end", "[8, 0]"}));
  EXPECT_TRUE(fails_with(with_offsets("[-8,0]"), {"data_offsets", "two offsets"}));
  EXPECT_TRUE(fails_with(with_offsets("[0]"), {"data_offsets", "two offsets"}));
  EXPECT_TRUE(fails_with(with_offsets("[0,4,8]"), {"data_offsets", "two offsets"}));
  EXPECT_TRUE(fails_with(with_offsets("[0,8.0]"), {"data_offsets", "two offsets"}));
  EXPECT_TRUE(fails_with(with_offsets("[0,18446744073709551615]"), {"two offsets"}));
  EXPECT_TRUE(
      fails_with(with_offsets("[9223372036854775799,9223372036854775807]"), {"\"w\"", "gap"}));
}

TEST(Safetensors, RefusesGapsAndOverlaps) {
  const auto two = [](const std::string& first, const std::string& second, size_t data_bytes) {
    return file_of(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
                                         R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" +
                                         second + "}}",
                                     data_bytes));
  };
  EXPECT_TRUE(two("[4,8]", "[0,4]", 8).ok());  // Tensors may have any order.
  EXPECT_TRUE(fails_with(two("[0,4]", "[2,6]", 6), {"\"b\"", "at 2", "overlaps", "at 4"}));
  EXPECT_TRUE(fails_with(two("[0,4]", "[0,4]", 4), {"overlaps"}));
  EXPECT_TRUE(fails_with(two("[0,4]", "[5,9]", 9), {"\"b\"", "at 5", "gap", "at 4"}));
  EXPECT_TRUE(fails_with(two("[1,5]", "[5,9]", 9), {"\"a\"", "gap"}));
  EXPECT_TRUE(fails_with(two("[0,4]", "[4,8]", 7), {"\"b\"", "byte 8", "byte 7", "incomplete"}));
  EXPECT_TRUE(fails_with(two("[0,4]", "[4,8]", 9), {"expected 8 bytes", "found 9"}));
}

TEST(Safetensors, MessagesQuoteHostileNames) {
  const auto file = file_of(safetensors_bytes(R"({"\u001b[2J\n":7})"));
  ASSERT_TRUE(fails_with(file, {"\\x1b[2J\\n"}));
  EXPECT_EQ(file.error().message.find('\x1b'), std::string::npos);
}

TEST(Safetensors, OpensFilesAndNamesThoseItCannot) {
  const TemporaryFolder folder;
  put(folder / "good.safetensors",
      safetensors_bytes(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  EXPECT_TRUE(SafetensorsFile::open(folder / "good.safetensors").ok());
  put(folder / "empty.safetensors", "");
  EXPECT_TRUE(fails_with(SafetensorsFile::open(folder / "empty.safetensors"),
                         {"empty.safetensors", "found 0", "incomplete"}));
  EXPECT_TRUE(fails_with(SafetensorsFile::open(folder / "absent.safetensors"),
                         {"absent.safetensors", "No such file"}));
  EXPECT_TRUE(fails_with(SafetensorsFile::open(folder.path()), {"regular file"}));
}

TEST(Safetensors, TensorsOutliveTheFileObjectTheyWereCopiedFrom) {
  const TemporaryFolder folder;
  put(folder / "w.safetensors",
      safetensors_bytes(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  auto opened = SafetensorsFile::open(folder / "w.safetensors");
  ASSERT_TRUE(opened.ok());
  const SafetensorsFile copy = *opened;
  opened = fail("gone");
  EXPECT_EQ(*copy.tensors().at("w").data, std::byte{0});
}

}  // namespace
}  // namespace neuronmm::io
