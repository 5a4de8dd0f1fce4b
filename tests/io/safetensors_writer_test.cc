// Tests writing safetensors: the values that come back, the header, and what is left after a
// failure.

#include "io/safetensors_writer.h"

#include <csignal>
#include <random>

#include <sys/resource.h>

#include "io/safetensors.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> random_bytes(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

const std::vector<TensorSpec> kAllDTypes = {
    {"u8", DType::kU8, {3}},      {"f64", DType::kF64, {2, 2}}, {"f32", DType::kF32, {1, 5}},
    {"f16", DType::kF16, {7}},    {"bf16", DType::kBF16, {}},   {"i64", DType::kI64, {2}},
    {"i32", DType::kI32, {3, 1}}, {"i8", DType::kI8, {5}},      {"none", DType::kF32, {0, 4}}};

TEST(SafetensorsWriter, EveryDTypeComesBackBitForBit) {
  constexpr uint32_t kSeed = 4;
  SCOPED_TRACE(kSeed);
  const TemporaryFolder folder;
  auto writer = SafetensorsWriter::create(folder / "w.safetensors", kAllDTypes, {{"format", "pt"}});
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  std::map<std::string, std::vector<std::byte>> written;
  for (const TensorSpec& spec : kAllDTypes) {
    const int64_t size = TensorView{spec.dtype, spec.shape, nullptr}.size_bytes();
    const auto bytes = random_bytes(size, kSeed + static_cast<uint32_t>(written.size()));
    // The bytes are appended in two pieces.
    const size_t half = bytes.size() / 2;
    ASSERT_TRUE(writer->append(std::span(bytes).first(half)).ok());
    ASSERT_TRUE(writer->append(std::span(bytes).subspan(half)).ok());
    written[spec.name] = bytes;
  }
  EXPECT_FALSE(fs::exists(folder / "w.safetensors")) << "it must not appear before finish()";
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);

  const auto file = SafetensorsFile::open(folder / "w.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->tensors().size(), kAllDTypes.size());
  for (const TensorSpec& spec : kAllDTypes) {
    const TensorView& tensor = file->tensors().at(spec.name);
    EXPECT_EQ(tensor.dtype, spec.dtype);
    EXPECT_EQ(tensor.shape, spec.shape);
    const auto& bytes = written.at(spec.name);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), tensor.data)) << spec.name;
  }
}

TEST(SafetensorsWriter, PadsTheHeaderAsTheReferenceDoes) {
  const TemporaryFolder folder;
  for (const std::string name : {"a", "ab", "abc", "abcdefgh"}) {
    auto writer = SafetensorsWriter::create(folder / "w", {{name, DType::kU8, {1}}});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(random_bytes(1, 5)).ok());
    ASSERT_TRUE(writer->finish().ok());
    const std::string bytes = get(folder / "w");
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    EXPECT_EQ(length % 8, 0u);
    const std::string header = bytes.substr(8, length);
    const std::string text = "{\"" + name + R"(":{"data_offsets":[0,1],"dtype":"U8","shape":[1]}})";
    EXPECT_EQ(header, text + std::string(length - text.size(), ' '));
  }
}

TEST(SafetensorsWriter, AChecksumFindsEveryChangedByte) {
  const TemporaryFolder folder;
  auto writer = SafetensorsWriter::create_checked(folder / "w", {{"a", DType::kU8, {40}}});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->append(random_bytes(40, 9)).ok());
  ASSERT_TRUE(writer->finish().ok());
  const auto file = SafetensorsFile::open_checked(folder / "w");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 1u) << "the checksum is no tensor of the caller's";
  const std::string bytes = get(folder / "w");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    put(folder / "w", damaged);
    EXPECT_FALSE(SafetensorsFile::open_checked(folder / "w").ok()) << "byte " << i;
  }
  auto plain = SafetensorsWriter::create(folder / "plain", {{"a", DType::kU8, {0}}});
  ASSERT_TRUE(plain->finish().ok());
  EXPECT_TRUE(fails_with(SafetensorsFile::open_checked(folder / "plain"), {"plain", "checksum"}));
}

TEST(SafetensorsWriter, RefusesImpossibleSpecs) {
  const TemporaryFolder folder;
  const auto create = [&](std::vector<TensorSpec> specs) {
    return SafetensorsWriter::create(folder / "w", std::move(specs));
  };
  EXPECT_TRUE(fails_with(create({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}), {"\"a\""}));
  EXPECT_TRUE(fails_with(create({{"__metadata__", DType::kU8, {1}}}), {"taken"}));
  EXPECT_TRUE(fails_with(create({{"a", DType::kU8, {-1}}}), {"\"a\"", "[-1]"}));
  EXPECT_TRUE(fails_with(create({{"a", DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}}),
                         {"\"a\"", "impossible"}));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SafetensorsWriter, FinishChecksTheNumberOfBytes) {
  const TemporaryFolder folder;
  const std::vector<TensorSpec> specs = {{"a", DType::kF32, {2}}};
  {
    auto writer = SafetensorsWriter::create(folder / "short", specs);
    ASSERT_TRUE(writer->append(random_bytes(7, 6)).ok());
    EXPECT_TRUE(fails_with(writer->finish(), {"short", "expected 8", "7"}));
  }
  {
    auto writer = SafetensorsWriter::create(folder / "long", specs);
    ASSERT_TRUE(writer->append(random_bytes(9, 6)).ok());
    EXPECT_TRUE(fails_with(writer->finish(), {"long", "expected 8", "9"}));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SafetensorsWriter, KeepsTheOldFileUntilTheNewOneIsComplete) {
  const TemporaryFolder folder;
  put(folder / "w", "old");
  {
    auto writer = SafetensorsWriter::create(folder / "w", {{"a", DType::kU8, {1}}});
    ASSERT_TRUE(writer.ok());
  }
  EXPECT_EQ(get(folder / "w"), "old");
}

// Limits the size of files in place of a full disk. write() fails in the same way, after it has
// written a part.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(SafetensorsWriter, WriteErrorsAreReportedAndLeaveNothing) {
  const TemporaryFolder folder;
  const auto bytes = random_bytes(100'000, 7);
  Status appended, again, finished;
  {
    const FileSizeLimit limit(50'000);
    auto writer = SafetensorsWriter::create(folder / "w", {{"a", DType::kU8, {100'000}}});
    ASSERT_TRUE(writer.ok());
    appended = writer->append(bytes);
    again = writer->append(bytes);
    finished = writer->finish();
  }
  EXPECT_TRUE(fails_with(appended, {(folder / "w").string(), "cannot be written", "too large"}));
  EXPECT_TRUE(fails_with(again, {"earlier error"}));
  EXPECT_FALSE(finished.ok());
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SafetensorsWriter, AMissingFolderIsNamed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(fails_with(SafetensorsWriter::create(folder / "no/w", {}), {"no/w", "No such file"}));
}

}  // namespace
}  // namespace neuronmm::io
