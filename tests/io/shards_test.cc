// Tests splitting tensors into files and opening them through the index.

#include "io/shards.h"

#include "io/checkpoint.h"
#include "io/folder_writer.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

const std::vector<TensorSpec> kSpecs = {{"a", DType::kU8, {60}},
                                        {"b", DType::kF32, {10}},
                                        {"c", DType::kU8, {1}},
                                        {"d", DType::kU8, {300}},
                                        {"e", DType::kU8, {99}}};

TEST(Shards, AShardEndsBeforeTheTensorThatExceedsTheLimit) {
  const std::vector<Shard> shards = plan_shards(kSpecs, 100);
  std::vector<std::vector<std::string>> names;
  for (const Shard& shard : shards) {
    names.emplace_back();
    for (const TensorSpec& spec : shard.specs) names.back().push_back(spec.name);
  }
  EXPECT_EQ(names, (std::vector<std::vector<std::string>>{{"a", "b"}, {"c"}, {"d"}, {"e"}}));
  EXPECT_EQ(shards[1].file_name, "model-00002-of-00004.safetensors");
}

TEST(Shards, OneShardHasThePlainName) {
  ASSERT_EQ(plan_shards(kSpecs).size(), 1u);
  EXPECT_EQ(plan_shards(kSpecs)[0].file_name, "model.safetensors");
}

TEST(Shards, AShardedFolderOpensThroughItsIndex) {
  const TemporaryFolder folder;
  const std::vector<Shard> shards = plan_shards(kSpecs, 100);
  for (const Shard& shard : shards) {
    auto writer = SafetensorsWriter::create(folder / shard.file_name, shard.specs);
    for (const TensorSpec& spec : shard.specs)
      ASSERT_TRUE(writer->append(std::vector<std::byte>(size_bytes(spec))).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  ASSERT_TRUE(write_text_file(folder / kIndexFileName, index_json(shards)).ok());
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), kSpecs.size());
  EXPECT_EQ(checkpoint->size_bytes(), 60 + 40 + 1 + 300 + 99);
  EXPECT_EQ(checkpoint->parameters(), 60 + 10 + 1 + 300 + 99);
  EXPECT_NE(get(folder / kIndexFileName).find("\"total_size\": 500"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::io
