// Compares the output metric with means of gradients that one pass over all sequences gives, and
// tests that stopped runs continue with the same bits. The gradients themselves are tested in
// tests/training.

#include "compress/statistics/output_metric.h"

#include <limits>

#include "compress/compress_test.h"
#include "compress/statistics/sequence_groups.h"
#include "io/model_folder.h"
#include "io/safetensors.h"
#include "training/output_gradients.h"

namespace neuronmm::compress {
namespace {

using Tokens = std::vector<text::TokenId>;

class OutputMetric : public CompressTest {
 protected:
  // Returns sequences of three groups.
  std::vector<Tokens> sequences() const {
    std::vector<Tokens> out;
    for (uint64_t i = 0; i < 2 * kGroupTokens / 60 + 5; ++i) {
      out.push_back(model::random_tokens(60, config_.vocab_size, i));
    }
    return out;
  }
  MetricRequest request(const std::string& name) const {
    MetricRequest request = {.sequences = sequences(),
                             .work = path(name),
                             .file = path(name) / "metric.safetensors",
                             .seed = 7};
    fs::create_directories(request.work);
    return request;
  }
  Status make(const MetricRequest& request) {
    auto model = io::open_model(input_.path());
    if (!model.ok()) return model.error();
    return make_output_metric({.checkpoint = model->checkpoint,
                               .config = model->config,
                               .backend = backend_,
                               .text = nullptr,
                               .progress = silent_},
                              request);
  }
  void make_well(const MetricRequest& request) {
    const Status made = make(request);
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  void expect_metric_refused(const MetricRequest& request, const std::string& words) {
    const Status made = make(request);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message.find(words), std::string::npos) << made.error().message;
    EXPECT_FALSE(fs::exists(request.file));
  }
  std::string metric(const std::string& name) const { return bytes(name, "metric.safetensors"); }
};

// Adds the moments of one layer's gradients by their definition.
struct Moments {
  std::vector<double> out, gate, up;

  void add(const training::MlpGradients<float>& of) {
    const auto squares = [](ConstMatrixView rows, std::vector<double>& sums) {
      sums.resize(static_cast<size_t>(rows.columns));
      for (int64_t i = 0; i < rows.rows; ++i) {
        for (int64_t j = 0; j < rows.columns; ++j) {
          const double value = rows.row(i)[j];
          sums[static_cast<size_t>(j)] += value * value;
        }
      }
    };
    squares(of.gate, gate);
    squares(of.up, up);
    const int64_t hidden = of.down.columns;
    out.resize(static_cast<size_t>(hidden * hidden));
    for (int64_t i = 0; i < of.down.rows; ++i) {
      const float* const row = of.down.row(i);
      for (int64_t j = 0; j < hidden * hidden; ++j) {
        out[static_cast<size_t>(j)] +=
            static_cast<double>(row[j / hidden]) * static_cast<double>(row[j % hidden]);
      }
    }
  }
};

void expect_mean(const io::SafetensorsFile& file, const std::string& name, const Shape& shape,
                 const std::vector<double>& sums, int64_t tokens) {
  const auto found = file.tensors().find(name);
  ASSERT_NE(found, file.tensors().end()) << name;
  EXPECT_EQ(found->second.shape, shape);
  ASSERT_EQ(found->second.dtype, DType::kF64);
  ASSERT_EQ(found->second.size(), std::ssize(sums));
  std::vector<double> values(sums.size());
  to_doubles(found->second, 0, found->second.size(), values.data());
  double largest = 0.0;
  for (const double sum : sums) largest = std::max(largest, std::abs(sum));
  EXPECT_GT(largest, 0.0);
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_NEAR(values[i] * static_cast<double>(tokens), sums[i], 1e-12 * largest) << name << i;
  }
}

TEST_F(OutputMetric, TheFileHoldsMeansOfGradients) {
  const MetricRequest wanted = request("metric");
  make_well(wanted);
  auto model = training::Model<float>::open(input_.path(), training::fastest_precision());
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::vector<Moments> moments(kLayers);
  const training::OutputObserver<float> observer = {
      [&](int64_t layer, const training::MlpGradients<float>& of) {
        moments[static_cast<size_t>(layer)].add(of);
      }};
  ASSERT_TRUE(training::output_gradients<float>(**model, wanted.sequences, 7, 0, observer).ok());
  const auto file = io::SafetensorsFile::open_checked(wanted.file);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const int64_t tokens = std::ssize(wanted.sequences) * 60;
  const std::map<std::string, std::string> expected = {{"hidden_size", "32"},
                                                       {"intermediate_size", "64"},
                                                       {"num_hidden_layers", "3"},
                                                       {"tokens", std::to_string(tokens)}};
  EXPECT_EQ(file->metadata(), expected);
  EXPECT_EQ(file->tensors().size(), 3u * kLayers);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.metric_", layer);
    const Moments& sums = moments[static_cast<size_t>(layer)];
    expect_mean(*file, prefix + "out", {kHidden, kHidden}, sums.out, tokens);
    expect_mean(*file, prefix + "gate", {kInner}, sums.gate, tokens);
    expect_mean(*file, prefix + "up", {kInner}, sums.up, tokens);
  }
}

TEST_F(OutputMetric, ARunThatIsStoppedAnywhereContinuesWithTheSameBits) {
  make_well(request("whole"));
  MetricRequest stopped = request("stopped");
  ASSERT_EQ(sequence_groups(stopped.sequences).size(), 3u);
  const int64_t steps = 3 * 2 * kLayers;
  int64_t stops = 0;
  for (int64_t after = 1; after <= steps; after += 4) {
    int64_t left = after;
    stopped.stop = [&] { return --left == 0; };
    const Status made = make(stopped);
    if (made.ok()) break;
    ++stops;
    EXPECT_EQ(made.error().kind, Error::Kind::kInterrupted);
    EXPECT_NE(made.error().message.find("of 3 groups of sequences"), std::string::npos);
    EXPECT_FALSE(fs::exists(stopped.file));
  }
  EXPECT_GE(stops, 3);
  stopped.stop = [] { return false; };
  make_well(stopped);
  EXPECT_EQ(metric("stopped"), metric("whole"));
  for (const auto& entry : fs::directory_iterator(stopped.work)) {
    EXPECT_EQ(entry.path().filename(), "metric.safetensors") << "unfinished work stays";
  }
}

// A damaged file is made again, and so are the sums of other sequences.
TEST_F(OutputMetric, SumsThatDoNotBelongToTheRunAreMadeAgain) {
  make_well(request("whole"));
  MetricRequest stopped = request("stopped");
  const auto stop = [&](uint64_t seed) {
    stopped.seed = seed;
    int64_t left = 3 * kLayers;
    stopped.stop = [left]() mutable { return --left == 0; };
    EXPECT_FALSE(make(stopped).ok());
    stopped.seed = 7;
    stopped.stop = [] { return false; };
  };
  stop(8);
  make_well(stopped);
  EXPECT_EQ(metric("stopped"), metric("whole"));
  fs::remove(stopped.file);
  stop(7);
  const fs::path last = stopped.work / fmt::format("metric-{:05}.safetensors", kLayers - 1);
  fs::resize_file(last, fs::file_size(last) - 8);
  make_well(stopped);
  EXPECT_EQ(metric("stopped"), metric("whole"));
}

TEST_F(OutputMetric, TheNumberOfThreadsChangesNoBit) {
  make_well(request("one"));
  set_num_threads(3);
  make_well(request("three"));
  EXPECT_EQ(metric("one"), metric("three"));
}

TEST_F(OutputMetric, SequencesOfAnotherModelAreRefused) {
  MetricRequest wrong = request("wrong");
  wrong.sequences = {};
  expect_metric_refused(wrong, "at least one sequence");
  wrong.sequences = {{1, 2}, {}};
  expect_metric_refused(wrong, "sequence 1: expected 1 to 64 tokens");
  wrong.sequences = {{1, 256}};
  expect_metric_refused(wrong, "sequence 0: expected tokens below the vocab_size 256, found 256");
}

TEST_F(OutputMetric, GradientsThatAreNotFiniteAreRefused) {
  auto tensors = tensors_;
  tensors.at("model.layers.1.mlp.down_proj.weight").values[0] =
      std::numeric_limits<float>::infinity();
  write_model(input_, tensors);
  expect_metric_refused(request("infinite"), "has gradients that are NaN or infinite");
}

TEST_F(OutputMetric, SequencesAreSpreadOverTheText) {
  CalibrationSequences text;
  for (int32_t i = 0; i < 9; ++i) text.sequences.emplace_back(1500, i);
  const auto sequences = metric_sequences(text);
  ASSERT_EQ(sequences.size(), 6u);
  const std::vector<int32_t> expected = {0, 1, 3, 4, 6, 7};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(sequences[i], Tokens(1024, expected[i]));
  }
}

}  // namespace
}  // namespace neuronmm::compress
