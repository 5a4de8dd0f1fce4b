// Tests opening model folders: shards and their index, missing weights, and tensors of zeros.

#include "io/checkpoint.h"

#include <cstring>

#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

// Returns a file with U8 tensors of one element and these names.
std::string file_with(std::initializer_list<std::string> names) {
  std::string header;
  size_t offset = 0;
  for (const std::string& name : names) {
    header += (offset == 0 ? "{\"" : ",\"") + name + R"(":{"dtype":"U8","shape":[1],)";
    header += fmt::format("\"data_offsets\":[{},{}]}}", offset, offset + 1);
    ++offset;
  }
  return safetensors_bytes(header + "}", offset);
}

constexpr const char* kIndex = R"({"metadata":{"total_size":2},"weight_map":{
  "a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})";

class ShardedFolder : public testing::Test {
 protected:
  void SetUp() override {
    put(folder_ / "model.safetensors.index.json", kIndex);
    put(folder_ / "model-00001-of-00002.safetensors", file_with({"a"}));
    put(folder_ / "model-00002-of-00002.safetensors", file_with({"b"}));
  }
  Result<Checkpoint> open() const { return Checkpoint::open(folder_.path()); }
  void put_index(std::string_view text) const {
    put(folder_ / "model.safetensors.index.json", text);
  }

  TemporaryFolder folder_;
};

TEST(Zeros, TensorsHaveTheirShapesAndAreZero) {
  const auto checkpoint = Checkpoint::zeros(
      "shapes", {{"large", DType::kBF16, {1 << 17, 1 << 16}}, {"small", DType::kF32, {3}}});
  // The tensors take 16 GiB, but none of it in memory.
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const TensorView large = checkpoint->require("large", {1 << 17, 1 << 16}).value();
  float last = 1;
  to_floats(large, large.size() - 1, 1, &last);
  EXPECT_EQ(last, 0);
  EXPECT_EQ(checkpoint->require("small", {3})->dtype, DType::kF32);
  EXPECT_TRUE(fails_with(checkpoint->require("small", {4}), {"shapes", "small", "[4]", "[3]"}));
}

// Numbers of pivots ascend, too. A model whose numbers are all zero would be refused.
TEST(Zeros, I32TensorsAscend) {
  const auto checkpoint = Checkpoint::zeros(
      "shapes", {{"few", DType::kI32, {2}}, {"many", DType::kI32, {5}}, {"w", DType::kF32, {3}}});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  for (const char* name : {"few", "many"}) {
    const TensorView& tensor = checkpoint->tensors().at(name);
    std::vector<int32_t> numbers(static_cast<size_t>(tensor.size()));
    std::memcpy(numbers.data(), tensor.data, numbers.size() * sizeof(int32_t));
    for (int32_t i = 0; i < std::ssize(numbers); ++i) EXPECT_EQ(numbers[i], i) << name;
  }
  EXPECT_EQ(checkpoint->parameters(), 3);
}

TEST_F(ShardedFolder, OpensThroughTheIndex) {
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->has("a") && checkpoint->has("b"));
  EXPECT_EQ(checkpoint->folder(), folder_.path());
}

TEST_F(ShardedFolder, TheSingleFileTakesPrecedence) {
  put(folder_ / "model.safetensors", file_with({"single"}));
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_TRUE(checkpoint->has("single") && !checkpoint->has("a"));
}

TEST_F(ShardedFolder, AMissingShardIsNamed) {
  put_index(R"({"weight_map":{"a":"model-00001-of-00002.safetensors",
                              "lm_head.weight":"model-00002-of-00002.safetensors"}})");
  fs::remove(folder_ / "model-00002-of-00002.safetensors");
  EXPECT_TRUE(fails_with(open(), {"model-00002-of-00002.safetensors", "missing", "incomplete"}));
}

TEST_F(ShardedFolder, ATruncatedShardIsNamed) {
  fs::resize_file(folder_ / "model-00002-of-00002.safetensors", 20);
  EXPECT_TRUE(fails_with(open(), {"model-00002-of-00002.safetensors", "incomplete"}));
}

// An export may have taken a tensor away and left it in the index, such as the head of a tied
// model.
TEST_F(ShardedFolder, ATensorThatOnlyTheIndexHasIsNamedWhenItIsNeeded) {
  put(folder_ / "model-00002-of-00002.safetensors", file_with({"c"}));
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->has("c") && !checkpoint->has("b"));
  EXPECT_TRUE(fails_with(checkpoint->require("b", {1}),
                         {"\"b\" is missing", "puts it into model-00002-of-00002.safetensors"}));
}

TEST_F(ShardedFolder, AShardWithoutTensorsOfTheDecoderMayBeMissing) {
  put_index(R"({"weight_map":{"a":"model-00001-of-00002.safetensors",
                              "visual.proj.weight":"model-00002-of-00002.safetensors"}})");
  fs::remove(folder_ / "model-00002-of-00002.safetensors");
  EXPECT_TRUE(open().ok()) << open().error().message;
}

TEST(TensorNames, LayersAndPartsOfTheDecoderAreRecognized) {
  EXPECT_EQ(layer_of("model.layers.12.mlp.up_proj.weight"), 12);
  EXPECT_EQ(layer_of("layers.0.input_layernorm.weight"), 0);
  for (const char* name :
       {"model.layers.x.a", "model.layers.", "model.layers.-1.a", "layers.3", "model.norm.weight",
        "visual.layers.3.a", "model.layers.99999999999999999999.a"})
    EXPECT_EQ(layer_of(name), std::nullopt) << name;
  for (const char* name :
       {"model.layers.0.a", "embed_tokens.weight", "model.norm.weight", "lm_head.weight"})
    EXPECT_TRUE(is_of_decoder(name)) << name;
  for (const char* name : {"visual.proj", "mtp.layers.0.a", "model.visual.a", "vision_tower.b"})
    EXPECT_FALSE(is_of_decoder(name)) << name;
}

TEST_F(ShardedFolder, ATensorInTwoShardsIsAnError) {
  put(folder_ / "model-00002-of-00002.safetensors", file_with({"b", "a"}));
  EXPECT_TRUE(fails_with(open(), {"\"a\"", "another shard"}));
}

TEST_F(ShardedFolder, ABadIndexIsAnError) {
  put_index("{");
  EXPECT_TRUE(fails_with(open(), {"index.json", "malformed JSON"}));
  put_index("{}");
  EXPECT_TRUE(fails_with(open(), {"index.json", "weight_map", "missing"}));
  put_index(R"({"weight_map":[]})");
  EXPECT_TRUE(fails_with(open(), {"weight_map", "an object", "array"}));
  put_index(R"({"weight_map":{}})");
  EXPECT_TRUE(fails_with(open(), {"weight_map", "no tensors"}));
  put_index(R"({"weight_map":{"a":1}})");
  EXPECT_TRUE(fails_with(open(), {"\"a\"", "a file name", "found 1"}));
}

TEST_F(ShardedFolder, AnIndexCannotNameFilesOfOtherFolders) {
  for (const std::string name : {"../x", "/etc/passwd", "..", "", "sub/x", "x\\u0000y"}) {
    put_index(R"({"weight_map":{"a":")" + name + R"("}})");
    EXPECT_TRUE(fails_with(open(), {"\"a\"", "a file name"})) << name;
  }
}

TEST(Checkpoint, FoldersWithoutWeightsAreNamed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(fails_with(Checkpoint::open(folder / "absent"), {"absent", "no such folder"}));
  EXPECT_TRUE(fails_with(Checkpoint::open(folder.path()), {"model.safetensors", "no weights"}));
  put(folder / "file", "");
  EXPECT_TRUE(fails_with(Checkpoint::open(folder / "file"), {"file", "a model folder"}));
  put(folder / "pytorch_model.bin", "");
  put(folder / "model-q4.gguf", "");
  EXPECT_TRUE(fails_with(Checkpoint::open(folder.path()),
                         {"safetensors", "found model-q4.gguf, pytorch_model.bin"}));
}

TEST(Checkpoint, ALinkToNothingIsNamed) {
  const TemporaryFolder folder;
  fs::create_symlink("blob", folder / "model.safetensors");
  EXPECT_TRUE(fails_with(Checkpoint::open(folder.path()), {"model.safetensors", "No such file"}));
}

TEST(Checkpoint, RequireNamesTensorAndShapes) {
  const TemporaryFolder folder;
  put(folder / "model.safetensors",
      safetensors_bytes(R"({"f":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                        R"("u":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})",
                        9));
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_TRUE(checkpoint->require("f", {2, 1}).ok());
  EXPECT_TRUE(fails_with(checkpoint->require("f", {1, 2}), {"\"f\"", "[1, 2]", "found [2, 1]"}));
  EXPECT_TRUE(fails_with(checkpoint->require("g", {3}), {"\"g\"", "missing", "[3]"}));
  EXPECT_TRUE(fails_with(checkpoint->require("u", {1}), {"\"u\"", "a float dtype", "found U8"}));
}

}  // namespace
}  // namespace neuronmm::io
