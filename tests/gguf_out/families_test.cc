// Exports tiny models of all families to GGUF files and opens them again. The oracles are the
// logits of transformers, and the files that llama.cpp's converter makes of the same models.

#include <map>
#include <set>

#include "cpu/backend.h"
#include "gguf/family_gguf.h"
#include "gguf/gguf_shards.h"
#include "gguf/mounted_gguf.h"
#include "gguf_out/export_gguf.h"
#include "io/families/family.h"
#include "io/io_test.h"
#include "ops/reference.h"

namespace neuronmm::gguf_out {
namespace {

// Models that no architecture of llama.cpp computes, and a part of the reason.
const std::map<std::string, std::string> kRefused = {
    {"gpt_oss", "the limit of SwiGLU"},
    {"gpt_oss_mxfp4", "the limit of SwiGLU"},
    {"olmoe", "the limit of queries, keys and values"},
    {"qwen3_moe", "layer 1 has one MLP and others have experts"},
    {"qwen3_moe_undivided", "bias of the attention's output"},
    {"exaone4", "the window of layer 0 would be 0 instead of 8"},
    {"gemma2", "the factor of attention scores"},
    {"gemma3", "the factor of attention scores"},
    {"hunyuan_biases", "does not compute a bias of the attention's output"},
    {"ministral", "a window in some layers"},
    {"qwen2", "a window in some layers"},
    {"qwen3", "does not compute a bias of the attention's output"},
    {"smollm3", "the RoPE table of layer 1"},
    {"smollm3_window", "does not compute biases of the MLP"}};

class GgufFamiliesOut : public testing::Test {
 protected:
  void SetUp() override { io::set_mount_opener(gguf::open_mounted); }
  void TearDown() override { io::set_mount_opener(nullptr); }

  // Exports the model as fp32.
  Result<GgufSummary> exported(const model::FamilyGolden& golden) const {
    const model::ModelFolder folder;
    golden.write(folder);
    Progress silent;
    return export_gguf(
        {.model = folder.path(), .out = root_ / "m.gguf", .type = "F32", .force = true}, {},
        silent);
  }
  const io::TemporaryFolder root_;
};

TEST_F(GgufFamiliesOut, AnExportedModelHasTheLogitsOfTransformers) {
  const auto reference = ops::make_reference_backend();
  std::set<std::string> refused;
  for (const auto& path : model::family_goldens()) {
    const std::string name = path.stem().string();
    SCOPED_TRACE(name);
    const model::FamilyGolden golden(path);
    const auto summary = exported(golden);
    if (!summary.ok()) {
      refused.insert(name);
      const auto reason = kRefused.find(name);
      EXPECT_TRUE(reason != kRefused.end() &&
                  summary.error().message.find(reason->second) != std::string::npos)
          << summary.error().message;
      continue;
    }
    const auto transformer = model::Transformer::load(root_ / "m.gguf", *reference);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    golden.expect_logits(*transformer, golden.tokens,
                         model::decoded_floats(golden.json.at("logits").get<std::string>()));
  }
  EXPECT_EQ(refused.size(), kRefused.size());
}

// Returns the tensors of a file as fp32 bytes, by name.
std::map<std::string, std::vector<std::byte>> tensors_of(const io::GgufShards& file) {
  std::map<std::string, std::vector<std::byte>> tensors;
  for (const auto& [name, tensor] : file.tensors()) {
    EXPECT_EQ(tensor.type->name, "F32") << name;
    tensors[std::string(name)] = {tensor.data.begin(), tensor.data.end()};
  }
  return tensors;
}

TEST_F(GgufFamiliesOut, TensorsAndKeysAreThoseOfTheConverterOfLlamaCpp) {
  int compared = 0;
  for (const auto& path : model::family_goldens()) {
    SCOPED_TRACE(path.stem().string());
    const model::FamilyGolden golden(path);
    if (!golden.json.contains("gguf") || kRefused.contains(path.stem().string())) continue;
    ASSERT_TRUE(exported(golden).ok());
    io::put(root_ / "theirs.gguf", gguf::file_of(golden).bytes());
    const auto ours = io::GgufShards::open(root_ / "m.gguf");
    const auto theirs = io::GgufShards::open(root_ / "theirs.gguf");
    ASSERT_TRUE(ours.ok() && theirs.ok());
    const auto architecture = theirs->metadata().string("general.architecture");
    // Families that are written as another one, which computes the same.
    if (*ours->metadata().string("general.architecture") != *architecture) continue;
    ++compared;
    EXPECT_TRUE(tensors_of(*ours) == tensors_of(*theirs));
    for (const auto& pair : golden.json.at("gguf").at("keys")) {
      const std::string key = pair[0];
      const io::GgufValue *mine = ours->metadata().find(key), *other = theirs->metadata().find(key);
      ASSERT_NE(mine, nullptr) << key;
      // With yarn ours is the stretched context, which neuronmm runs.
      if (key.ends_with(".context_length") && path.stem() == "olmo3") continue;
      EXPECT_EQ(mine->type, other->type) << key;
      EXPECT_TRUE(std::ranges::equal(mine->elements, other->elements)) << key;
    }
  }
  EXPECT_GE(compared, 15);
}

TEST(FamiliesOut, EveryFamilyThatRunsHasAnArchitecture) {
  std::set<std::string_view> known;
  for (const io::Family* family : io::families()) {
    for (const io::GgufFamily& gguf : family->gguf) known.insert(gguf.architecture);
  }
  for (const io::Family* family : io::families()) {
    if (family->rewrite != nullptr) continue;
    if (family->written_as.empty())
      EXPECT_FALSE(family->gguf.empty()) << family->class_name;
    else
      EXPECT_TRUE(known.contains(family->written_as)) << family->class_name;
  }
}

}  // namespace
}  // namespace neuronmm::gguf_out
