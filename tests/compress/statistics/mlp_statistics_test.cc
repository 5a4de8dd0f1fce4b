#include "compress/statistics/mlp_statistics.h"

#include <cmath>

#include "compress/compress_test.h"
#include "io/checkpoint.h"
#include "model/naive_transformer.h"

namespace neuronmm::compress {
namespace {

class Statistics : public CompressTest {
 protected:
  CalibrationSequences sequences() const {
    const auto tokenizer = text::Tokenizer::load(input_.path());
    if (!tokenizer.ok()) throw std::runtime_error(tokenizer.error().message);
    auto found = calibration_sequences(*tokenizer, {{"text", text_}}, 400, config_);
    if (!found.ok()) throw std::runtime_error(found.error().message);
    return std::move(found).value();
  }
  Status gather(const std::string& work, Gathered what = Gathered::kMlps) {
    fs::create_directories(path(work));
    const auto checkpoint = io::Checkpoint::open(input_.path());
    if (!checkpoint.ok()) return checkpoint.error();
    return gather_statistics({*checkpoint, config_, backend_, &text_sequences_, silent_},
                             path(work), what);
  }
  std::string statistics_bytes(const std::string& work) const {
    std::string all;
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      all += bytes(work, statistics_path("", layer).string());
      if (fs::exists(attention_path(path(work), layer))) {
        all += bytes(work, attention_path("", layer).string());
      }
    }
    if (fs::exists(head_path(path(work)))) all += bytes(work, head_path("").string());
    return all;
  }
  void expect_mlp_means();
  void SetUp() override {
    CompressTest::SetUp();
    text_sequences_ = sequences();
  }

  CalibrationSequences text_sequences_;
};

double gate_times(Activation activation, double g, double u) {
  if (activation == Activation::kSilu) return g / (1.0 + std::exp(-g)) * u;
  return g / 2.0 * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g))) * u;
}

// Sums over all tokens of the naive transformer, with slopes by central differences.
struct NaiveSums {
  Activation activation = Activation::kSilu;
  DoubleMatrix in{kHidden, kHidden}, neurons{kInner, kInner}, gate{1, kInner}, up{1, kInner};
  double residual = 0.0;
  int64_t tokens = 0;

  double gated(double g, double u) const { return gate_times(activation, g, u); }

  void add(const model::NaiveMlpRows& rows) {
    constexpr double kStep = 1e-5;
    for (size_t t = 0; t < rows.input.size(); ++t, ++tokens) {
      const auto &x = rows.input[t], &g = rows.gate[t], &u = rows.up[t];
      std::vector<double> h;
      for (size_t j = 0; j < g.size(); ++j) {
        h.push_back(gated(g[j], u[j]));
        const double of_gate =
            (gated(g[j] + kStep, u[j]) - gated(g[j] - kStep, u[j])) / (2 * kStep);
        const double of_up = (gated(g[j], u[j] + kStep) - gated(g[j], u[j] - kStep)) / (2 * kStep);
        gate(0, static_cast<int64_t>(j)) += of_gate * of_gate;
        up(0, static_cast<int64_t>(j)) += of_up * of_up;
      }
      add_product(x, in);
      add_product(h, neurons);
      for (const double value : rows.hidden[t]) residual += value * value / kHidden;
    }
  }

  static void add_product(const std::vector<double>& x, DoubleMatrix& sum) {
    for (int64_t j = 0; j < sum.columns(); ++j) {
      for (int64_t i = 0; i < sum.rows(); ++i) {
        sum(i, j) += x[static_cast<size_t>(i)] * x[static_cast<size_t>(j)];
      }
    }
  }
};

// The bound of the error of fp32 activations: a relative 2^-24 for every product summed in every
// layer, doubled because squares are compared.
constexpr double kActivationError = 2 * 0x1p-24 * (kHidden + kInner) * kLayers;

void expect_means(const DoubleMatrix& found, const DoubleMatrix& sum, double tokens,
                  const char* name) {
  ASSERT_EQ(found.rows(), sum.rows()) << name;
  ASSERT_EQ(found.columns(), sum.columns()) << name;
  double largest = 0.0, difference = 0.0;
  for (int64_t i = 0; i < sum.size(); ++i) {
    const double expected = sum.data()[i] / tokens;
    largest = std::max(largest, std::abs(expected));
    difference = std::max(difference, std::abs(found.data()[i] - expected));
  }
  EXPECT_GT(largest, 0.0) << name;
  EXPECT_LE(difference, kActivationError * largest) << name;
}

TEST_F(Statistics, MlpMeansMatchTheNaiveTransformer) { expect_mlp_means(); }

TEST_F(Statistics, MlpMeansOfOtherSwitchesMatchTheNaiveTransformer) {
  use_family(io::Architecture::kLlama, true);
  config_.activation = Activation::kGeluTanh;
  config_.gain_offset = 0.25;
  config_.embedding_scale = 2.0;
  config_.residual_scale = 0.5;
  config_.score_scale = 0.4;
  config_.score_cap = 4.0;
  config_.ropes.push_back({.theta = 50.0, .scaling = {}, .rotary_width = 4});
  config_.layers = {{.window = 5, .rope = 1}, {.rope = io::kNoRope}, {}};
  input_.write_tensors(tensors_);
  expect_mlp_means();
}

void Statistics::expect_mlp_means() {
  ASSERT_TRUE(gather("work").ok());
  std::vector<NaiveSums> sums(kLayers);
  for (NaiveSums& sum : sums) sum.activation = config_.activation;
  for (const auto& sequence : text_sequences_.sequences) {
    const auto layers = model::naive_mlp_rows(config_, tensors_, sequence);
    for (size_t layer = 0; layer < sums.size(); ++layer) sums[layer].add(layers[layer]);
  }
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    SCOPED_TRACE(fmt::format("layer {}", layer));
    const NaiveSums& naive = sums[static_cast<size_t>(layer)];
    const auto tokens = static_cast<double>(naive.tokens);
    EXPECT_EQ(naive.tokens, text_sequences_.origin.tokens);
    const auto found = read_statistics(path("work"), layer, config_);
    ASSERT_TRUE(found.ok()) << found.error().message;
    expect_means(found->in, naive.in, tokens, "in");
    expect_means(found->neurons, naive.neurons, tokens, "neurons");
    expect_means(found->gate_slope, naive.gate, tokens, "gate_slope");
    expect_means(found->up_slope, naive.up, tokens, "up_slope");
    EXPECT_NEAR(found->residual(0, 0), naive.residual / tokens,
                kActivationError * naive.residual / tokens);
  }
}

// Returns what the LM head reads, for a hidden state of the last layer.
std::vector<double> final_norm(const std::vector<double>& hidden, const std::vector<float>& gain,
                               double eps) {
  double squares = 0;
  for (const double value : hidden) squares += value * value / static_cast<double>(hidden.size());
  std::vector<double> out;
  for (size_t i = 0; i < hidden.size(); ++i) {
    out.push_back(hidden[i] / std::sqrt(squares + eps) * gain[i]);
  }
  return out;
}

TEST_F(Statistics, AttentionAndHeadMeansMatchTheNaiveTransformer) {
  ASSERT_TRUE(gather("work", Gathered::kAllLinears).ok());
  ASSERT_TRUE(check_linear_statistics(path("work"), config_).ok());
  const int64_t width = config_.num_attention_heads * config_.head_dim;
  std::vector<DoubleMatrix> in(kLayers, DoubleMatrix(kHidden, kHidden)),
      mixed = in, heads(kLayers, DoubleMatrix(width, width));
  DoubleMatrix head(kHidden, kHidden);
  const auto& gain = tensors_.at("model.norm.weight").values;
  for (const auto& sequence : text_sequences_.sequences) {
    const auto layers = model::naive_mlp_rows(config_, tensors_, sequence);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      for (const auto& row : layers[layer].attention) NaiveSums::add_product(row, in[layer]);
      for (const auto& row : layers[layer].mixed) NaiveSums::add_product(row, mixed[layer]);
      for (const auto& row : layers[layer].heads) NaiveSums::add_product(row, heads[layer]);
    }
    for (const auto& row : layers.back().hidden) {
      NaiveSums::add_product(final_norm(row, gain, config_.rms_norm_eps), head);
    }
  }
  const auto tokens = static_cast<double>(text_sequences_.origin.tokens);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    SCOPED_TRACE(fmt::format("layer {}", layer));
    const auto found = read_attention_statistics(path("work"), layer, config_);
    ASSERT_TRUE(found.ok()) << found.error().message;
    expect_means(found->in, in[static_cast<size_t>(layer)], tokens, "in");
    expect_means(found->mixed, mixed[static_cast<size_t>(layer)], tokens, "mixed");
    expect_means(found->heads, heads[static_cast<size_t>(layer)], tokens, "heads");
  }
  const auto found = read_head_statistics(path("work"), config_);
  ASSERT_TRUE(found.ok()) << found.error().message;
  expect_means(*found, head, tokens, "head");
}

TEST_F(Statistics, MlpMeansAreTheSameIfAttentionIsGatheredToo) {
  ASSERT_TRUE(gather("alone").ok());
  ASSERT_TRUE(gather("all", Gathered::kAllLinears).ok());
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = statistics_path("", layer).string();
    EXPECT_EQ(bytes("alone", name), bytes("all", name));
  }
  EXPECT_FALSE(check_linear_statistics(path("alone"), config_).ok());
  ASSERT_TRUE(gather("alone", Gathered::kAllLinears).ok()) << "what is missing is gathered";
  EXPECT_EQ(statistics_bytes("alone"), statistics_bytes("all"));
}

TEST_F(Statistics, InterruptedGatheringResumesToTheSameBytes) {
  int64_t all_calls = 0;
  backend_.on_attention = [&] { ++all_calls; };
  ASSERT_TRUE(gather("whole", Gathered::kAllLinears).ok());
  // A sequence calls attention once for each slice of its inputs (a head's width) and once for
  // itself.
  const int64_t together = kHidden / config_.head_dim + 1;
  ASSERT_EQ(all_calls % together, 0);
  for (int64_t stop = 1; stop <= all_calls; stop += together) {
    SCOPED_TRACE(fmt::format("after {} of {} attentions", stop, all_calls));
    int64_t calls = 0;
    backend_.on_attention = [&] {
      if (++calls == stop) set_interrupted(true);
    };
    const Status stopped = gather("parts", Gathered::kAllLinears);
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    set_interrupted(false);
    calls = 0;
    backend_.on_attention = [&] { ++calls; };
    ASSERT_TRUE(gather("parts", Gathered::kAllLinears).ok());
    EXPECT_EQ(calls, all_calls - stop - (together - 1));
    EXPECT_EQ(statistics_bytes("parts"), statistics_bytes("whole"));
    calls = 0;
    ASSERT_TRUE(gather("parts", Gathered::kAllLinears).ok());
    EXPECT_EQ(calls, 0) << "what is there is not made again";
    fs::remove_all(path("parts"));
  }
}

TEST_F(Statistics, MeansDoNotDependOnTheNumberOfThreads) {
  ASSERT_TRUE(gather("one", Gathered::kAllLinears).ok());
  set_num_threads(3);
  ASSERT_TRUE(gather("three", Gathered::kAllLinears).ok());
  EXPECT_EQ(statistics_bytes("one"), statistics_bytes("three"));
}

TEST_F(Statistics, ADamagedFileIsGatheredAgain) {
  ASSERT_TRUE(gather("whole").ok());
  ASSERT_TRUE(gather("parts").ok());
  std::fstream(path("parts") / statistics_path("", 1), std::ios::in | std::ios::out)
      .seekp(-9, std::ios::end)
      .put('!');
  ASSERT_TRUE(gather("parts").ok());
  EXPECT_EQ(statistics_bytes("parts"), statistics_bytes("whole"));
}

TEST_F(Statistics, ErrorsNameAFileOfAnotherModel) {
  ASSERT_TRUE(gather("work").ok());
  io::ModelConfig other = config_;
  other.intermediate_size += 8;
  const auto found = read_statistics(path("work"), 0, other);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("mlp-00000.safetensors: expected tensor neurons F64 [2628]"),
            std::string::npos)
      << found.error().message;
}

TEST_F(Statistics, ErrorsNameAnMlpThatOverflows) {
  for (float& value : tensors_.at(mlp_name(1, MlpMatrix::kUp, "_proj")).values) value = 3e38f;
  write_model(input_, tensors_);
  const Status status = gather("work");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("the MLP of layer 1 makes NaN or infinity"),
            std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace neuronmm::compress
