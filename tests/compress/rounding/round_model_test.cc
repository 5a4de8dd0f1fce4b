// Tests rounding all linear layers of a tiny random model from saved statistics.
#include "compress/rounding/round_model.h"

#include <set>

#include "compress/compress_test.h"
#include "compress/linear_algebra/blas.h"
#include "compress/rounding/codes_file.h"
#include "compress/statistics/mlp_statistics.h"
#include "io/checkpoint.h"

namespace neuronmm::compress {
namespace {

using ops::Codes;
using ops::LowBitFormat;

class RoundModel : public CompressTest {
 protected:
  void SetUp() override {
    CompressTest::SetUp();
    ASSERT_TRUE(load_blas().ok());
    const auto tokenizer = text::Tokenizer::load(input_.path());
    ASSERT_TRUE(tokenizer.ok());
    const auto text = calibration_sequences(*tokenizer, {{"text", text_}}, 400, config_);
    auto checkpoint = io::Checkpoint::open(input_.path());
    ASSERT_TRUE(text.ok() && checkpoint.ok());
    checkpoint_.emplace(std::move(checkpoint).value());
    for (const char* name : {"statistics", "work"}) fs::create_directories(path(name));
    ASSERT_TRUE(gather_statistics({*checkpoint_, config_, backend_, &*text, silent_},
                                  path("statistics"), Gathered::kAllLinears)
                    .ok());
  }
  LowBitFormat format_of(const std::string& tensor) {
    asked_.insert(tensor);
    const bool head = tensor.find("layers") == std::string::npos;
    return head ? LowBitFormat{6, 128} : body_;
  }
  Status round() {
    return round_model(
        {*checkpoint_, config_, [this](const std::string& tensor) { return format_of(tensor); },
         path("statistics")},
        path("work"), silent_);
  }
  Result<Codes> codes(const std::string& tensor) {
    const TensorView& weight = checkpoint_->tensors().at(tensor);
    return read_codes(path("work"), tensor, format_of(tensor), weight.rows(), weight.columns());
  }
  void expect_rounded_by(const std::string& tensor, const DoubleMatrix& inputs) {
    SCOPED_TRACE(tensor);
    const auto gram = RoundingGram::prepare(inputs);
    ASSERT_TRUE(gram.ok());
    const auto expected = round_by_gram(to_double_matrix(checkpoint_->tensors().at(tensor)), *gram,
                                        format_of(tensor));
    const auto found = codes(tensor);
    ASSERT_TRUE(expected.ok() && found.ok());
    EXPECT_EQ(found->q, expected->q);
    EXPECT_EQ(found->groups, expected->groups);
  }

  std::optional<io::Checkpoint> checkpoint_;
  LowBitFormat body_ = {4, 16};
  std::set<std::string> asked_;
};

TEST_F(RoundModel, EveryLinearLayerIsRoundedByTheGramOfItsInput) {
  ASSERT_TRUE(round().ok());
  EXPECT_EQ(asked_.size(), static_cast<size_t>(7 * kLayers + 1));
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto attention = read_attention_statistics(path("statistics"), layer, config_);
    const auto mlp = read_statistics(path("statistics"), layer, config_);
    ASSERT_TRUE(attention.ok() && mlp.ok());
    const std::pair<const char*, const DoubleMatrix*> inputs[] = {
        {"self_attn.q", &attention->in},
        {"self_attn.k", &attention->in},
        {"self_attn.v", &attention->mixed},
        {"self_attn.o", &attention->heads},
        {"mlp.gate", &mlp->in},
        {"mlp.up", &mlp->in},
        {"mlp.down", &mlp->neurons}};
    for (const auto& [name, gram] : inputs) {
      expect_rounded_by(fmt::format("model.layers.{}.{}_proj.weight", layer, name), *gram);
    }
  }
  const auto head = read_head_statistics(path("statistics"), config_);
  ASSERT_TRUE(head.ok());
  expect_rounded_by(config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
                    *head);
}

TEST_F(RoundModel, OnlyMissingCodesAreComputed) {
  ASSERT_TRUE(round().ok());
  const std::string kept = "model.layers.1.mlp.up_proj.weight",
                    damaged = "model.layers.2.self_attn.q_proj.weight";
  const auto before = fs::last_write_time(codes_path(path("work"), kept));
  const auto expected = codes(damaged);
  fs::resize_file(codes_path(path("work"), damaged), 100);
  ASSERT_TRUE(round().ok());
  EXPECT_EQ(fs::last_write_time(codes_path(path("work"), kept)), before);
  const auto again = codes(damaged);
  ASSERT_TRUE(expected.ok() && again.ok());
  EXPECT_EQ(again->q, expected->q);
  body_ = {8, 128};
  EXPECT_FALSE(codes(kept).ok()) << "those of 4 bits are no codes of 8";
  ASSERT_TRUE(round().ok());
  EXPECT_TRUE(codes(kept).ok());
}

TEST_F(RoundModel, AnInterruptStopsAndKeepsCodes) {
  set_interrupted(true);
  const Status stopped = round();
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
}

}  // namespace
}  // namespace neuronmm::compress
