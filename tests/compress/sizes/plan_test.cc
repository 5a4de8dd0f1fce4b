// Tests plans against the published sizes of Llama-3.2-1B.
#include "compress/sizes/plan.h"

#include <gtest/gtest.h>

#include "compress/weight_formats.h"

namespace neuronmm::compress {
namespace {

io::ModelConfig llama_1b() {
  io::ModelConfig config;
  config.hidden_size = 2048;
  config.intermediate_size = 8192;
  config.num_hidden_layers = 16;
  config.num_attention_heads = 32;
  config.num_key_value_heads = 8;
  config.head_dim = 64;
  config.vocab_size = 128256;
  config.max_position_embeddings = 131072;
  config.tie_word_embeddings = true;
  return config;
}

TEST(Plan, SizesOfLlama1BAreThePublishedOnes) {
  const auto plan = make_plan(llama_1b(), {0.2, 128}, kOriginal, "model");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->parameters_before, 1235814400);  // the published size of this model
  const int64_t removed = 48 * (int64_t{2048} * 8192 - 1280 * (2048 + 8192));
  EXPECT_EQ(plan->parameters_after, 1235814400 - removed);
  EXPECT_EQ(plan->bytes_before, 2 * plan->parameters_before);
  EXPECT_EQ(plan->bytes_after, 2 * plan->parameters_after);
  ASSERT_EQ(plan->matrices.size(), 48u);
  int64_t factor_bytes = 0;
  for (const MatrixPlan& matrix : plan->matrices) {
    EXPECT_EQ(matrix.rank, 1280);
    EXPECT_DOUBLE_EQ(matrix.kept_share, 0.78125);
    factor_bytes += matrix.bytes_after;
  }
  EXPECT_EQ(factor_bytes, int64_t{1200} << 20);  // 1200 MiB for all factors
  const MatrixPlan& down = plan->matrix_plan(7, MlpMatrix::kDown);
  EXPECT_EQ(down.layer, 7);
  EXPECT_EQ(down.in_features, 8192);
  EXPECT_EQ(down.out_features, 2048);
}

TEST(Plan, ARankOfZeroLeavesAMatrixDense) {
  std::vector<int64_t> given;
  for (int64_t layer = 0; layer < 16; ++layer) given.insert(given.end(), {1280, 0, 640});
  const Plan plan = plan_of_ranks(llama_1b(), given, kOriginal);
  const MatrixPlan& up = plan.matrix_plan(3, MlpMatrix::kUp);
  EXPECT_EQ(up.rank, 0);
  EXPECT_EQ(up.kept_share, 1.0);
  EXPECT_EQ(up.bytes_after, up.bytes_before);
  const auto ranks = plan.mlp_shapes();
  ASSERT_EQ(ranks.size(), 16u);
  EXPECT_EQ(ranks[15].gate, 1280);
  EXPECT_EQ(ranks[15].up, 0);
  EXPECT_EQ(ranks[15].down, 640);
}

TEST(Plan, SizesOfLlama1BInInt8) {
  const auto bf16 = make_plan(llama_1b(), {0.2, 128}, kOriginal, "");
  const auto plan = make_plan(llama_1b(), {0.2, 128}, kInt8, "");
  ASSERT_TRUE(bf16.ok() && plan.ok());
  EXPECT_EQ(plan->parameters_after, bf16->parameters_after);
  EXPECT_EQ(plan->bytes_before, bf16->bytes_before);
  const int64_t norms = 33 * 2048, linear = plan->parameters_after - norms;
  EXPECT_EQ(plan->bytes_after, 2 * norms + linear + 2 * linear / 128);
  const MatrixPlan& up = plan->matrix_plan(3, MlpMatrix::kUp);
  EXPECT_EQ(up.bytes_after, 1280 * (2048 + 8192) / 128 * 130);
}

// A weight has half a byte, and there is a byte per 16 weights and two bytes per 128. The LM head
// is the embedding table and has 6 bits.
TEST(Plan, SizesOfLlama1BIn4Bits) {
  const auto plan = make_plan(llama_1b(), {0.2, 128}, kInt4, "");
  ASSERT_TRUE(plan.ok());
  const int64_t norms = 33 * 2048, head = 128256 * 2048;
  const int64_t linear = plan->parameters_after - norms - head;
  EXPECT_EQ(plan->bytes_after, 2 * norms + linear * (64 + 8 + 2) / 128 + head * (96 + 2) / 128);
}

// Maps of pivots have 8 bits even if other weights have 4.
TEST(Plan, MapsOfPivotsHave8BitsIn4BitModels) {
  const io::ModelConfig config = llama_1b();
  const std::vector<io::MlpShape> shapes(16, io::MlpShape{.down = 1024, .input = 1536});
  const Plan few = plan_of_shapes(config, Form::kNarrow, shapes, kInt4);
  const int64_t maps = 16 * (1536 * 512 + 1024 * 1024), norms = 33 * 2048, head = 128256 * 2048;
  const int64_t linear = few.parameters_after - norms - head - maps;
  EXPECT_EQ(few.bytes_after, 2 * norms + 16 * 4 * (1536 + 1024) + linear * (64 + 8 + 2) / 128 +
                                 head * (96 + 2) / 128 + maps * 130 / 128);
}

// Returns the bytes of all MLP matrices.
int64_t matrix_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const MatrixPlan& matrix : plan.matrices) bytes += matrix.bytes_after;
  return bytes;
}

// Scales belong to groups of 128 columns. No side of these matrices is a multiple of 128, so
// swapped sides would have another number of scales.
TEST(Plan, TheBytesOfTheMatricesAreThoseThatTheModelLoses) {
  io::ModelConfig config = llama_1b();
  config.intermediate_size = 8136;
  const auto shapes = [](const io::MlpShape& shape) { return std::vector(16, shape); };
  const Plan whole = plan_of_shapes(config, Form::kMixed, shapes({}), kInt8);
  EXPECT_EQ(matrix_bytes(whole),
            matrix_bytes(plan_of_ranks(config, std::vector<int64_t>(48), kInt8)));
  const io::MlpShape mixed = {.down = 1000, .input = 1500, .neurons = 7000};
  const Plan narrow = plan_of_shapes(config, Form::kMixed, shapes(mixed), kInt8);
  const int64_t indices = 16 * 4 * (1000 + 1500);
  EXPECT_EQ(matrix_bytes(whole) - matrix_bytes(narrow),
            whole.bytes_after - narrow.bytes_after + indices);
  const io::MlpShape ranks = {.gate = 1200, .up = 1100, .down = 1000};
  const Plan factors = plan_of_shapes(config, Form::kUv, shapes(ranks), kInt8);
  EXPECT_EQ(matrix_bytes(whole) - matrix_bytes(factors), whole.bytes_after - factors.bytes_after);
}

void expect_refused(const io::ModelConfig& config, const RankRule& rule,
                    std::initializer_list<const char*> words) {
  const auto plan = make_plan(config, rule, kOriginal, "the/model");
  ASSERT_FALSE(plan.ok());
  for (const char* word : words) {
    EXPECT_NE(plan.error().message.find(word), std::string::npos)
        << "no \"" << word << "\" in: " << plan.error().message;
  }
}

TEST(Plan, RefusesRanksThatSaveNothing) {
  expect_refused(llama_1b(), {0.05, 1024},
                 {"the/model", "layer 0", "gate", "rank 2048", "1638.4", "ratio", "block"});
  expect_refused(llama_1b(), {0.99, 128},
                 {"the/model", "layer 0", "gate", "rank 0", "ratio", "block"});
}

TEST(Plan, RefusesACompressedModel) {
  io::ModelConfig config = llama_1b();
  config.compression = io::CompressionRecord{"svd", 0.1, 128, "floor", {}};
  expect_refused(config, {0.2, 128}, {"the/model", "already", "svd"});
}

}  // namespace
}  // namespace neuronmm::compress
