// Tests rounding all matrices of a tiny random model to block types.

#include "compress/block_rounding/block_rounding.h"

#include "compress/block_rounding/tensor_blocks.h"
#include "compress/compress_test.h"
#include "compress/linear_algebra/blas.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/checkpoint.h"
#include "model/tensor_specs.h"

namespace neuronmm::compress {
namespace {

using gguf_out::BlockType;

class RoundToBlocks : public CompressTest {
 protected:
  void SetUp() override {
    CompressTest::SetUp();
    const auto tokenizer = text::Tokenizer::load(input_.path());
    ASSERT_TRUE(tokenizer.ok());
    auto text = calibration_sequences(*tokenizer, {{"text", text_}}, 400, config_);
    auto checkpoint = io::Checkpoint::open(input_.path());
    ASSERT_TRUE(text.ok() && checkpoint.ok());
    sequences_.emplace(std::move(text).value());
    checkpoint_.emplace(std::move(checkpoint).value());
    fs::create_directories(path("work"));
    for (const io::TensorSpec& spec : model::tensor_specs(config_)) {
      const bool matrix = spec.shape.size() == 2;
      types_[spec.name] = matrix ? BlockType::kQ4_0 : BlockType::kF32;
    }
  }
  Result<RoundedBlocks> round(bool by_text = true) {
    const CompressionInputs inputs = {*checkpoint_, config_, backend_, &*sequences_, silent_};
    return round_to_blocks(inputs, types_, {.by_text = by_text}, path("work"));
  }
  const TensorView& weight(const std::string& tensor) const {
    return checkpoint_->tensors().at(tensor);
  }
  fs::path file_of(const std::string& tensor) const {
    return path("work") / "blocks" / (tensor + ".blocks.safetensors");
  }

  std::optional<CalibrationSequences> sequences_;
  std::optional<io::Checkpoint> checkpoint_;
  BlockTypes types_;
};

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

TEST_F(RoundToBlocks, EveryMatrixIsRoundedByTheGramOfItsInput) {
  const auto rounded = round();
  ASSERT_TRUE(rounded.ok()) << rounded.error().message;
  const fs::path statistics = path("statistics");
  fs::create_directories(statistics);
  ASSERT_TRUE(gather_statistics({*checkpoint_, config_, backend_, &*sequences_, silent_},
                                statistics, Gathered::kAllLinears)
                  .ok());
  const auto expect_by = [&](const std::string& tensor, const DoubleMatrix& input) {
    const auto gram = RoundingGram::prepare(input);
    ASSERT_TRUE(gram.ok());
    const auto expected =
        blocks_by_gram(to_double_matrix(weight(tensor)), *gram, types_.at(tensor));
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(copy_of(rounded->bytes(tensor)), *expected) << tensor;
  };
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto attention = read_attention_statistics(statistics, layer, config_);
    const auto mlp = read_statistics(statistics, layer, config_);
    ASSERT_TRUE(attention.ok() && mlp.ok());
    const auto name = [&](const char* part) {
      return fmt::format("model.layers.{}.{}_proj.weight", layer, part);
    };
    expect_by(name("self_attn.q"), attention->in);
    expect_by(name("self_attn.k"), attention->in);
    expect_by(name("self_attn.v"), attention->mixed);
    expect_by(name("self_attn.o"), attention->heads);
    expect_by(name("mlp.gate"), mlp->in);
    expect_by(name("mlp.up"), mlp->in);
    expect_by(name("mlp.down"), mlp->neurons);
  }
  const auto head = read_head_statistics(statistics, config_);
  ASSERT_TRUE(head.ok());
  expect_by("lm_head.weight", *head);
}

TEST_F(RoundToBlocks, TablesWithoutStatisticsAndRunsWithoutTextGoToNearest) {
  const auto rounded = round();
  ASSERT_TRUE(rounded.ok());
  const std::string table = "model.embed_tokens.weight",
                    q = "model.layers.0.self_attn.q_proj.weight";
  const auto nearest_table = nearest_blocks(weight(table), types_.at(table));
  const auto nearest_q = nearest_blocks(weight(q), types_.at(q));
  ASSERT_TRUE(nearest_table.ok() && nearest_q.ok());
  EXPECT_EQ(copy_of(rounded->bytes(table)), *nearest_table);
  EXPECT_NE(copy_of(rounded->bytes(q)), *nearest_q);
  EXPECT_TRUE(rounded->bytes("model.norm.weight").empty());
  fs::remove_all(path("work") / "blocks");
  const auto without_text = round(false);
  ASSERT_TRUE(without_text.ok());
  EXPECT_EQ(copy_of(without_text->bytes(q)), *nearest_q);
}

TEST_F(RoundToBlocks, OnlyMissingTensorsAreRounded) {
  ASSERT_TRUE(round().ok());
  const std::string kept = "model.layers.1.mlp.up_proj.weight",
                    damaged = "model.layers.2.self_attn.q_proj.weight";
  const auto before = fs::last_write_time(file_of(kept));
  const auto size = fs::file_size(file_of(damaged));
  fs::resize_file(file_of(damaged), 100);
  ASSERT_TRUE(round().ok());
  EXPECT_EQ(fs::last_write_time(file_of(kept)), before);
  EXPECT_EQ(fs::file_size(file_of(damaged)), size);
  types_[kept] = BlockType::kQ8_0;
  const auto other = round();
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(std::ssize(other->bytes(kept)), weight(kept).size() / 32 * 34);
}

TEST_F(RoundToBlocks, AnInterruptStopsAndKeepsTensors) {
  set_interrupted(true);
  const auto stopped = round(false);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
}

TEST_F(RoundToBlocks, TypesThatFitNoRowAreRefused) {
  types_["model.layers.0.mlp.up_proj.weight"] = BlockType::kQ4_K;
  const auto refused = round();
  ASSERT_FALSE(refused.ok());
  for (const char* const word : {"up_proj", "multiple of 256", "Q4_K", "32"})
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace neuronmm::compress
