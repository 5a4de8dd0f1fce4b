// Compares the metric of the outputs with finite differences, and its labels with the model's own
// distribution.

#include "finetune/output_metric.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "factored_model.h"
#include "finetune/torch_transformer.h"
#include "io/safetensors.h"
#include "ops/reference.h"

namespace neuronmm::finetune {
namespace {

using Tokens = std::vector<text::TokenId>;

class OutputMetric : public testing::Test {
 protected:
  void SetUp() override { write_model(folder_, config_, model::random_tensors(config_, 41)); }
  void TearDown() override { set_interrupted(false); }

  std::filesystem::path out() const { return folder_.path() / "metric.safetensors"; }
  MetricRequest request(std::vector<Tokens> sequences) const {
    return {folder_.path(), std::move(sequences), out(), 5, DType::kF64};
  }
  MetricSummary measure(const MetricRequest& request) {
    auto summary = write_output_metric(request, silent_);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return std::move(summary).value();
  }
  std::vector<double> read(const std::string& name) const {
    const auto file = io::SafetensorsFile::open_checked(out());
    if (!file.ok()) throw std::runtime_error(file.error().message);
    const TensorView& tensor = file->tensors().at(name);
    std::vector<double> values(static_cast<size_t>(tensor.size()));
    to_doubles(tensor, 0, tensor.size(), values.data());
    return values;
  }
  void expect_refused(const MetricRequest& request, const std::string& words) {
    const auto summary = write_output_metric(request, silent_);
    ASSERT_FALSE(summary.ok());
    EXPECT_NE(summary.error().message.find(words), std::string::npos) << summary.error().message;
    EXPECT_FALSE(std::filesystem::exists(out()));
  }

  const io::ModelConfig config_ = model::tiny_config(io::Architecture::kQwen3);
  model::ModelFolder folder_;
  Progress silent_;
};

// Computes the loss for given labels, with offsets added to the outputs of one layer's MLP.
class Losses {
 public:
  explicit Losses(const std::filesystem::path& folder)
      : model_(TorchTransformer::load(folder, at::kDouble, at::kDouble).value()) {}

  double loss(const Tokens& tokens, const Tokens& labels, int64_t layer,
              const MlpOffsets& offsets) const {
    const std::vector<int64_t> ids(tokens.begin(), tokens.end());
    at::Tensor hidden = model_.embed(at::tensor(at::ArrayRef<int64_t>(ids)).unsqueeze(0));
    for (int64_t i = 0; i < model_.config().num_hidden_layers; ++i) {
      hidden = model_.run_layer(hidden, i, i == layer ? offsets : MlpOffsets());
    }
    const at::Tensor log_p = at::log_softmax(model_.logits(hidden.squeeze(0)), -1);
    double sum = 0.0;
    for (size_t t = 0; t < labels.size(); ++t) {
      sum -= log_p[static_cast<int64_t>(t)][labels[t]].item<double>();
    }
    return sum;
  }

  // Returns the gradient [T, features] by central differences, element by element of one layer's
  // output `member`.
  at::Tensor gradient(const Tokens& tokens, const Tokens& labels, int64_t layer,
                      at::Tensor MlpOffsets::*member, int64_t features) const {
    constexpr double kStep = 1e-4;
    const auto length = std::ssize(tokens);
    at::Tensor gradient = at::zeros({length, features}, at::kDouble);
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t j = 0; j < features; ++j) {
        MlpOffsets offsets;
        at::Tensor& offset = offsets.*member;
        offset = at::zeros({1, length, features}, at::kDouble);
        const auto at_step = [&](double step) {
          offset[0][t][j] = step;
          return loss(tokens, labels, layer, offsets);
        };
        gradient[t][j] = (at_step(kStep) - at_step(-kStep)) / (2 * kStep);
      }
    }
    return gradient;
  }

 private:
  TorchTransformer model_;
};

// `expected` comes from central differences, whose error is 1e-8 times the third derivatives.
void expect_near(const std::vector<double>& found, const at::Tensor& expected) {
  ASSERT_EQ(std::ssize(found), expected.numel());
  const at::Tensor values = expected.contiguous();
  const double scale = values.abs().max().item<double>();
  EXPECT_GT(scale, 1e-6);
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], values.data_ptr<double>()[i], 1e-6 * scale) << i;
  }
}

TEST_F(OutputMetric, IsTheMeanOfSquaredFiniteDifferences) {
  const std::vector<Tokens> sequences = {model::random_tokens(5, config_.vocab_size, 1),
                                         model::random_tokens(3, config_.vocab_size, 2)};
  const MetricSummary summary = measure(request(sequences));
  EXPECT_EQ(summary.tokens, 8);
  ASSERT_EQ(summary.labels.size(), 2u);
  const Losses losses(folder_.path());
  const int64_t hidden = config_.hidden_size, neurons = config_.intermediate_size;
  double loss = 0.0;
  for (size_t s = 0; s < 2; ++s) loss += losses.loss(sequences[s], summary.labels[s], -1, {});
  EXPECT_NEAR(summary.mean_loss, loss / 8, 1e-12 * loss);
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    const auto rows = [&](at::Tensor MlpOffsets::*member, int64_t features) {
      std::vector<at::Tensor> pieces;
      for (size_t s = 0; s < sequences.size(); ++s) {
        pieces.push_back(losses.gradient(sequences[s], summary.labels[s], layer, member, features));
      }
      return at::cat(pieces);
    };
    const at::Tensor down = rows(&MlpOffsets::down, hidden);
    const at::Tensor gate = rows(&MlpOffsets::gate, neurons), up = rows(&MlpOffsets::up, neurons);
    const std::string prefix = fmt::format("model.layers.{}.mlp.metric_", layer);
    expect_near(read(prefix + "out"), at::matmul(down.t(), down) / 8);
    expect_near(read(prefix + "gate"), (gate * gate).mean(0));
    expect_near(read(prefix + "up"), (up * up).mean(0));
  }
}

TEST_F(OutputMetric, TheFileHoldsTheSizes) {
  measure(request({model::random_tokens(4, config_.vocab_size, 1)}));
  const auto file = io::SafetensorsFile::open_checked(out());
  ASSERT_TRUE(file.ok()) << file.error().message;
  const std::map<std::string, std::string> expected = {{"hidden_size", "16"},
                                                       {"intermediate_size", "24"},
                                                       {"num_hidden_layers", "2"},
                                                       {"tokens", "4"}};
  EXPECT_EQ(file->metadata(), expected);
  EXPECT_EQ(file->tensors().size(), 6u);
  EXPECT_EQ(file->tensors().at("model.layers.1.mlp.metric_out").shape, (Shape{16, 16}));
  EXPECT_EQ(file->tensors().at("model.layers.1.mlp.metric_gate").shape, (Shape{24}));
  EXPECT_EQ(file->tensors().at("model.layers.1.mlp.metric_up").dtype, DType::kF64);
}

// Compares the counts of the labels after one token with the probabilities that src/model computes.
TEST_F(OutputMetric, LabelsAreDrawnFromTheModelsDistribution) {
  constexpr int64_t kDraws = 100;
  const Tokens token = {7};
  const MetricSummary summary = measure(request(std::vector<Tokens>(kDraws, token)));
  std::vector<double> counts(static_cast<size_t>(config_.vocab_size));
  for (const Tokens& labels : summary.labels) ++counts[static_cast<size_t>(labels.at(0))];
  const auto backend = ops::make_reference_backend();
  const auto transformer = model::Transformer::load(folder_.path(), *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  const Matrix logits = model::all_logits(*transformer, token);
  double total = 0.0;
  for (int64_t j = 0; j < logits.columns(); ++j) total += std::exp(logits.row(0)[j]);
  for (int64_t j = 0; j < logits.columns(); ++j) {
    const double p = std::exp(logits.row(0)[j]) / total;
    // The tolerance is five standard deviations of a binomial count.
    EXPECT_NEAR(counts[static_cast<size_t>(j)], p * kDraws, 5 * std::sqrt(p * kDraws) + 1) << j;
  }
}

TEST_F(OutputMetric, LabelsDependOnTheSeedOnly) {
  MetricRequest wanted = request({model::random_tokens(20, config_.vocab_size, 1)});
  const auto labels = measure(wanted).labels;
  EXPECT_EQ(measure(wanted).labels, labels);
  ++wanted.seed;
  EXPECT_NE(measure(wanted).labels, labels);
}

TEST_F(OutputMetric, RefusesInvalidSequences) {
  expect_refused(request({}), "at least one sequence");
  expect_refused(request({{1, 2}, {}}), "sequence 1: expected 1 to 64 tokens");
  expect_refused(request({Tokens(65, 1)}), "found 65");
  expect_refused(request({{1, 19}}),
                 "sequence 0: expected tokens below the vocab_size 19, found 19");
  expect_refused(request({{-1}}), "found -1");
}

TEST_F(OutputMetric, AnInterruptLeavesNoFile) {
  set_interrupted(true);
  const auto summary = write_output_metric(request({{1, 2, 3}}), silent_);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.error().kind, Error::Kind::kInterrupted);
  EXPECT_FALSE(std::filesystem::exists(out()));
}

}  // namespace
}  // namespace neuronmm::finetune
