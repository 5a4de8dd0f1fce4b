// Tests of mixtures of experts that become smaller or are rounded. A mixture whose experts are all
// the same MLP computes what the dense model with this MLP computes, so that what the program finds
// for its experts can be compared with what it finds for that model.

#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "compress/compressed_mixture.h"
#include "compress/mixture_fixture.h"
#include "compress/quantize.h"
#include "compress/statistics/expert_statistics.h"
#include "io/checkpoint.h"

namespace neuronmm::compress {
namespace {

class Mixtures : public MixtureTest {
 protected:
  // Gives all experts the weights of the first.
  void make_equal(model::TestTensors& tensors) const {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t e = 1; e < config_.experts->count; ++e) {
        for (const char* const name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
          tensors.at(expert(layer, e) + name) = tensors.at(expert(layer, 0) + name);
        }
      }
    }
  }
  // Lets the router weigh all experts alike.
  static void silence_routers(model::TestTensors& tensors) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      std::ranges::fill(tensors.at(mlp(layer) + "router.weight").values, 0.0f);
    }
  }
  // Writes the dense model whose MLPs are the first experts to `folder`, and returns its config.
  io::ModelConfig write_dense(model::ModelFolder& folder) {
    const io::ModelConfig mixture = config_;
    model::TestTensors dense;
    for (const auto& [name, tensor] : tensors_) {
      const size_t at = name.find("experts.");
      if (name.find(".router.") != name.npos) continue;
      if (at == name.npos) {
        dense[name] = tensor;
      } else if (name.substr(at).starts_with("experts.0.")) {
        dense[name.substr(0, at) + name.substr(at + std::string("experts.0.").size())] = tensor;
      }
    }
    config_ = small_config();
    write_model(folder, dense);
    return std::exchange(config_, mixture);
  }
  // Gathers the statistics of all linear layers. The text is cut into sequences of `length` tokens.
  void gather(const fs::path& model, const io::ModelConfig& config, const std::string& work,
              size_t length) {
    const auto tokenizer = text::Tokenizer::load(model);
    ASSERT_TRUE(tokenizer.ok());
    auto text = calibration_sequences(*tokenizer, {{"text", text_}}, 400, config);
    ASSERT_TRUE(text.ok());
    tokens_ = 0;
    for (auto& sequence : text->sequences) {
      sequence.resize(std::min(sequence.size(), length));
      tokens_ += std::ssize(sequence);
    }
    text->origin.tokens = tokens_;
    const auto checkpoint = io::Checkpoint::open(model);
    ASSERT_TRUE(checkpoint.ok());
    fs::create_directories(path(work));
    const auto done = gather_statistics({*checkpoint, config, backend_, &*text, silent_},
                                        path(work), Gathered::kAllLinears);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  MlpStatistics of_expert(int64_t layer, int64_t number) const {
    return read_expert_statistics(path("mixture"), layer, number, config_).value();
  }
  static MlpStatistics sum(MlpStatistics a, const MlpStatistics& b) {
    add(b.in, a.in);
    add(b.neurons, a.neurons);
    add(b.gate_slope, a.gate_slope);
    add(b.up_slope, a.up_slope);
    return a;
  }
  static void expect_near(const DoubleMatrix& found, const DoubleMatrix& expected, double factor) {
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0.0, error = 0.0;
    for (int64_t i = 0; i < found.size(); ++i) {
      largest = std::max(largest, std::abs(factor * expected.data()[i]));
      error = std::max(error, std::abs(found.data()[i] - factor * expected.data()[i]));
    }
    EXPECT_GT(largest, 0.0);
    EXPECT_LE(error, 1e-6 * largest);  // products with weights of fp32
  }
  static void expect_near(const MlpStatistics& found, const MlpStatistics& expected,
                          double factor) {
    expect_near(found.in, expected.in, factor);
    expect_near(found.neurons, expected.neurons, factor);
    expect_near(found.gate_slope, expected.gate_slope, factor);
    expect_near(found.up_slope, expected.up_slope, factor);
  }
  void expect_same_logits(const std::string& out, float tolerance) {
    const auto tokens = model::random_tokens(40, config_.vocab_size, 3);
    const Matrix before = logits(input_.path(), tokens), after = logits(path(out), tokens);
    for (int64_t i = 0; i < before.rows(); ++i) {
      for (int64_t j = 0; j < before.columns(); ++j) {
        ASSERT_NEAR(before.row(i)[j], after.row(i)[j], tolerance);
      }
    }
  }

  // Returns the error of each token's logits in `out` as a share of their size, in ascending order.
  std::vector<double> errors(const fs::path& model, const fs::path& out) {
    const auto tokens = model::random_tokens(40, config_.vocab_size, 3);
    const Matrix before = logits(model, tokens), after = logits(out, tokens);
    std::vector<double> shares;
    for (int64_t i = 0; i < before.rows(); ++i) {
      double error = 0.0, size = 0.0;
      for (int64_t j = 0; j < before.columns(); ++j) {
        error += std::pow(after.row(i)[j] - before.row(i)[j], 2);
        size += std::pow(before.row(i)[j], 2);
      }
      shares.push_back(std::sqrt(error / size));
    }
    std::ranges::sort(shares);
    return shares;
  }
  // Rounds `model` to 8 bits by the text, with and without smoothing, and expects that smoothing
  // adds no error. Smoothed weights compute the same function, and a changed function would have
  // errors of the size of the logits. The routers must be silent: a nearly undecided one may choose
  // other experts after rounding.
  void expect_smoothing_is_exact(const fs::path& model) {
    std::array<std::vector<double>, 2> found;
    for (const bool smooth : {false, true}) {
      const QuantizeRequest wanted = {.model = model,
                                      .out = path("out"),
                                      .formats = quantized_formats(8),
                                      .rounding = Rounding::kGptq,
                                      .smooth = smooth,
                                      .calibration = CalibrationText{{{"text.txt", text_}}},
                                      .force = true};
      const auto rounded = quantize(wanted, backend_, silent_);
      ASSERT_TRUE(rounded.ok()) << rounded.error().message;
      found[smooth ? 1 : 0] = errors(model, path("out"));
    }
    const size_t middle = found[0].size() / 2;
    EXPECT_LE(found[1][middle], 1.5 * found[0][middle]);
    EXPECT_LE(found[1].back(), 2.0 * found[0].back());
    EXPECT_LE(found[1].back(), 0.25) << found[0].back();
  }

  int64_t tokens_ = 0;
};

TEST_F(Mixtures, StatisticsOfExpertsAddUpToThoseOfTheirMlp) {
  use_mixture(2, 1, [&](model::TestTensors& tensors) { make_equal(tensors); });
  model::ModelFolder dense;
  const io::ModelConfig dense_config = write_dense(dense);
  gather(input_.path(), config_, "mixture", 100);
  gather(dense.path(), dense_config, "dense", 100);
  const auto uses = read_expert_uses(path("mixture"), config_).value();
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto& both = uses[static_cast<size_t>(layer)];
    ASSERT_FALSE(both[0].of_layer || both[1].of_layer) << "the text reaches both experts";
    EXPECT_DOUBLE_EQ(both[0].tokens + both[1].tokens, 1.0);
    EXPECT_DOUBLE_EQ(both[0].weight + both[1].weight, 1.0);
    const auto all = read_statistics(path("dense"), layer, dense_config).value();
    expect_near(sum(of_expert(layer, 0), of_expert(layer, 1)), all, 1.0);
    expect_near(of_expert(layer, 0).residual, all.residual, 1.0);
  }
}

TEST_F(Mixtures, TokensCountByTheSquareOfTheirRoutingWeight) {
  use_mixture(2, 2, [&](model::TestTensors& tensors) {
    make_equal(tensors);
    silence_routers(tensors);
  });
  model::ModelFolder dense;
  const io::ModelConfig dense_config = write_dense(dense);
  gather(input_.path(), config_, "mixture", 100);
  gather(dense.path(), dense_config, "dense", 100);
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto all = read_statistics(path("dense"), layer, dense_config).value();
    for (const int64_t e : {0, 1}) expect_near(of_expert(layer, e), all, 0.25);
  }
}

// All tokens of a short sequence are shown to every expert, so that an expert that no token chooses
// gets exactly the means of its layer, as if a single token had chosen it.
TEST_F(Mixtures, AnExpertThatNoTokenChoosesHasTheStatisticsOfItsLayer) {
  use_mixture(2, 1, [&](model::TestTensors& tensors) {
    make_equal(tensors);
    silence_routers(tensors);
  });
  model::ModelFolder dense;
  const io::ModelConfig dense_config = write_dense(dense);
  gather(input_.path(), config_, "mixture", 30);
  gather(dense.path(), dense_config, "dense", 30);
  const auto uses = read_expert_uses(path("mixture"), config_).value();
  std::string named;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const auto& both = uses[static_cast<size_t>(layer)];
    const int64_t unused = both[0].tokens == 0.0 ? 0 : 1;
    EXPECT_DOUBLE_EQ(both[static_cast<size_t>(1 - unused)].tokens, 1.0);
    EXPECT_TRUE(both[static_cast<size_t>(unused)].of_layer);
    EXPECT_FALSE(both[static_cast<size_t>(1 - unused)].of_layer);
    const auto all = read_statistics(path("dense"), layer, dense_config).value();
    expect_near(of_expert(layer, 1 - unused), all, 1.0);
    expect_near(of_expert(layer, unused), all, 1.0 / static_cast<double>(tokens_));
    named += fmt::format("{}layer {}: {}", layer > 0 ? "; " : "", layer, unused);
  }
  EXPECT_EQ(completed_experts(uses), named);
}

TEST_F(Mixtures, AMixtureOfOneExpertLosesTheNeuronsThatTheDenseModelLoses) {
  use_mixture(1, 1);
  model::ModelFolder dense;
  write_dense(dense);
  run_well(mixture_of("mixture", Form::kNeurons, Allocate::kUniform, 0.25));
  CompressRequest of_dense = mixture_of("dense", Form::kNeurons, Allocate::kUniform, 0.25);
  of_dense.model = dense.path();
  run_well(of_dense);
  const auto found = io::Checkpoint::open(path("mixture")).value();
  const auto expected = io::Checkpoint::open(path("dense")).value();
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (const char* const name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
      const TensorView& a = found.tensors().at(expert(layer, 0) + name);
      const TensorView& b = expected.tensors().at(mlp(layer) + name);
      ASSERT_EQ(a.shape, b.shape);
      expect_near(to_double_matrix(a), to_double_matrix(b), 1.0);
    }
  }
  EXPECT_EQ(config_of("mixture").intermediate_size, 48);
  EXPECT_EQ(config_of("mixture").experts->width, 48);
}

// Expert e of four has 16 e neurons that reach nothing.
TEST_F(Mixtures, ExpertsKeepTheNeuronsThatTheyNeed) {
  use_mixture(4, 2, [](model::TestTensors& tensors) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t e = 0; e < 4; ++e) {
        auto& down = tensors.at(expert(layer, e) + "down_proj.weight").values;
        for (int64_t i = 0; i < kHidden; ++i) {
          std::fill_n(down.begin() + i * kInner + (e % 2 == 0 ? 0 : kInner - 16 * e), 16 * e, 0.0f);
        }
      }
    }
  });
  const auto summary = run_well(mixture_of("out", Form::kNeurons, Allocate::kMeasured, 0.3));
  ASSERT_TRUE(summary.experts.has_value());
  const io::ModelConfig made = config_of("out");
  for (const auto& widths : made.experts->widths) {
    ASSERT_EQ(widths.size(), 4u);
    for (int64_t e = 0; e < 4; ++e) EXPECT_GE(widths[static_cast<size_t>(e)], kInner - 16 * e);
  }
  EXPECT_EQ(summary.experts->widths(), made.experts->widths);
  EXPECT_LE(summary.parameters_after,
            summary.parameters_before - 3 * kHidden * kLayers * 4 * kInner * 3 / 10);
  EXPECT_EQ(summary.plan.parameters_after, summary.parameters_after);
  EXPECT_EQ(summary.plan.bytes_after, summary.bytes_after);
  expect_same_logits("out", 1e-4f);
}

// The logit of the last expert lies between those of the two others, so that no token chooses it.
TEST_F(Mixtures, TheLeastUsedExpertsAreDropped) {
  use_mixture(3, 1, [](model::TestTensors& tensors) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      auto& router = tensors.at(mlp(layer) + "router.weight").values;
      for (int64_t i = 0; i < kHidden; ++i) {
        const auto at = static_cast<size_t>(i);
        router[at + kHidden] = 0.5f * router[at] + 0.5f * router[at + 2 * kHidden];
      }
    }
  });
  const auto summary = run_well(mixture_of("out", Form::kExperts, Allocate::kUniform, 0.3));
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    EXPECT_EQ(summary.experts->kept(layer), (std::vector<int32_t>{0, 2}));
  }
  EXPECT_EQ(config_of("out").experts->count, 2);
  const auto made = io::Checkpoint::open(path("out")).value();
  EXPECT_EQ(made.tensors().at(mlp(0) + "router.weight").shape, (Shape{2, kHidden}));
  EXPECT_FALSE(made.has(expert(0, 2) + "gate_proj.weight"));
  expect_same_logits("out", 0.0f);
}

TEST_F(Mixtures, ThreadsChangeNothing) {
  use_mixture(3, 2);
  expect_threads_change_nothing(mixture_of("out", Form::kNeurons, Allocate::kPredicted, 0.3));
}

TEST_F(Mixtures, StatisticsOfAFolderServeLaterRuns) {
  use_mixture(3, 2);
  CompressRequest first = mixture_of("a", Form::kNeurons, Allocate::kPredicted, 0.3);
  first.statistics = path("statistics");
  run_well(first);
  CompressRequest second = first;
  second.out = path("b");
  second.calibration.reset();
  run_well(second);
  EXPECT_EQ(bytes("a"), bytes("b"));
}

TEST_F(Mixtures, FormsThatMixturesDoNotHaveAreRefused) {
  use_mixture(3, 2);
  expect_refused(mixture_of("out", Form::kPivoted, Allocate::kUniform, 0.3),
                 {"mixtures of experts", "neurons and experts", "pivoted"});
  expect_refused(mixture_of("out", Form::kExperts, Allocate::kUniform, 0.6),
                 {"leaves 1 of 3 experts", "needs 2", "smaller ratio"});
  expect_refused(mixture_of("out", Form::kExperts, Allocate::kUniform, 0.1),
                 {"leaves 3 of 3 experts", "saves nothing", "larger ratio"});
  expect_refused(mixture_of("out", Form::kNeurons, Allocate::kPredicted, 0.99),
                 {"64 neurons of an expert", "smaller ratio or a smaller block"});
  CompressRequest padded = mixture_of("out", Form::kNeurons, Allocate::kUniform, 0.3);
  padded.pad = true;
  expect_refused(padded, {"pad", "experts"});
  run_well(mixture_of("done", Form::kNeurons, Allocate::kPredicted, 0.3));
  CompressRequest again = mixture_of("out", Form::kNeurons, Allocate::kPredicted, 0.3);
  again.model = path("done");
  expect_refused(again, {"compressed already"});
}

TEST_F(Mixtures, ADenseModelHasNoExperts) {
  expect_refused(mixture_of("out", Form::kExperts, Allocate::kUniform, 0.3),
                 {"form experts", "mixtures of experts"});
}

// Both experts see all tokens at the same weight, so that their Gram matrices are those of the
// dense model but for a factor, which rounding does not see.
TEST_F(Mixtures, ExpertsAreRoundedAsTheirMlpIs) {
  use_mixture(2, 2, [&](model::TestTensors& tensors) {
    make_equal(tensors);
    silence_routers(tensors);
  });
  model::ModelFolder dense;
  write_dense(dense);
  for (const int bits : {8, 6, 4}) {
    SCOPED_TRACE(testing::Message() << bits << " bits");
    QuantizeRequest wanted = {.model = input_.path(),
                              .out = path("mixture"),
                              .formats = quantized_formats(bits),
                              .rounding = Rounding::kGptq,
                              .calibration = CalibrationText{{{"text.txt", text_}}},
                              .force = true};
    const auto rounded = quantize(wanted, backend_, silent_);
    ASSERT_TRUE(rounded.ok()) << rounded.error().message;
    wanted.model = dense.path();
    wanted.out = path("dense");
    ASSERT_TRUE(quantize(wanted, backend_, silent_).ok());
    const auto found = io::Checkpoint::open(path("mixture")).value();
    const auto expected = io::Checkpoint::open(path("dense")).value();
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (const char* const name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
        const TensorView& b = expected.tensors().at(mlp(layer) + name);
        for (const int64_t e : {0, 1}) {
          const TensorView& a = found.tensors().at(expert(layer, e) + name);
          ASSERT_EQ(a.shape, b.shape);
          EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(b.size_bytes())), 0) << name;
        }
      }
      EXPECT_TRUE(is_float(found.tensors().at(mlp(layer) + "router.weight").dtype));
    }
  }
}

// Our Python files know no mixtures, so that no other program opens the folder.
TEST_F(Mixtures, RoundedFoldersNameNoCode) {
  use_mixture(3, 2);
  const QuantizeRequest wanted = {
      .model = input_.path(), .out = path("out"), .formats = quantized_formats(8)};
  const auto rounded = quantize(wanted, backend_, silent_);
  ASSERT_TRUE(rounded.ok()) << rounded.error().message;
  for (const auto& entry : fs::directory_iterator(path("out"))) {
    EXPECT_NE(entry.path().extension(), ".py") << entry.path();
  }
  EXPECT_EQ(bytes("out", "README.md").find("trust_remote_code"), std::string::npos);
  const std::string config = bytes("out", "config.json");
  EXPECT_EQ(config.find("auto_map"), std::string::npos) << config;
  EXPECT_NE(config.find("\"Neuronmm"), std::string::npos) << config;
}

TEST_F(Mixtures, SmoothingKeepsWhatTheRouterReads) {
  use_mixture(3, 2);
  const QuantizeRequest wanted = {.model = input_.path(),
                                  .out = path("out"),
                                  .formats = quantized_formats(8),
                                  .rounding = Rounding::kGptq,
                                  .smooth = true,
                                  .calibration = CalibrationText{{{"text.txt", text_}}}};
  const auto rounded = quantize(wanted, backend_, silent_);
  ASSERT_TRUE(rounded.ok()) << rounded.error().message;
  const auto before = io::Checkpoint::open(input_.path()).value();
  const auto after = io::Checkpoint::open(path("out")).value();
  for (const std::string name :
       {"model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.router.weight"}) {
    const TensorView &a = before.tensors().at(name), &b = after.tensors().at(name);
    ASSERT_EQ(a.size_bytes(), b.size_bytes());
    EXPECT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(a.size_bytes())), 0) << name;
  }
}

TEST_F(Mixtures, SmoothingChangesNoFunction) {
  use_mixture(3, 2, silence_routers);
  expect_smoothing_is_exact(input_.path());
}

// Each expert of a compressed mixture has its own number of neurons.
TEST_F(Mixtures, ACompressedMixtureIsRounded) {
  use_mixture(3, 2, silence_routers);
  run_well(mixture_of("small", Form::kNeurons, Allocate::kPredicted, 0.3));
  expect_smoothing_is_exact(path("small"));
  EXPECT_EQ(config_of("out").experts->widths, config_of("small").experts->widths);
}

}  // namespace
}  // namespace neuronmm::compress
