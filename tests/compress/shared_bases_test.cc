// Tests compressions of mixtures whose experts share bases. The compressed model is compared with
// the dense one that has the products of its tensors.

#include <cmath>

#include "compress/compressed_mixture.h"
#include "compress/mixture_fixture.h"
#include "compress/oracle.h"
#include "compress/quantize.h"
#include "compress/statistics/expert_statistics.h"
#include "io/checkpoint.h"

namespace neuronmm::compress {
namespace {

class MixturesOnBases : public MixtureTest {
 protected:
  static constexpr int64_t kShared = 12;  // the dimensions that matter if a model is made so

  void SetUp() override {
    MixtureTest::SetUp();
    seed_ = 20261202;
    use_mixture(4, 2);
  }
  CompressRequest on_bases(const std::string& out, Form form, Allocate allocate,
                           double ratio = 0.3) const {
    return mixture_of(out, form, allocate, ratio);
  }
  // Makes gate and up of all experts read the first kShared numbers of an orthogonal turn of x, and
  // down write into as many dimensions.
  static void share_dimensions(model::TestTensors& tensors) {
    std::mt19937_64 random(12);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const DoubleMatrix a = random_matrix(kShared, kHidden, random);
      const DoubleMatrix d = random_matrix(kHidden, kShared, random);
      for (int64_t e = 0; e < 4; ++e) {
        const auto set = [&](const char* name, const DoubleMatrix& weight) {
          auto& values = tensors.at(expert(layer, e) + name).values;
          for (int64_t i = 0; i < weight.rows(); ++i) {
            for (int64_t j = 0; j < weight.columns(); ++j) {
              values[static_cast<size_t>(i * weight.columns() + j)] =
                  static_cast<float>(0.05 * weight(i, j));
            }
          }
        };
        set("gate_proj.weight", naive_product(random_matrix(kInner, kShared, random), a));
        set("up_proj.weight", naive_product(random_matrix(kInner, kShared, random), a));
        set("down_proj.weight", naive_product(d, random_matrix(kShared, kInner, random)));
      }
    }
  }
  void expect_same_logits(const fs::path& a, const fs::path& b, double tolerance) {
    const auto tokens = model::random_tokens(40, config_.vocab_size, 3);
    const Matrix before = logits(a, tokens), after = logits(b, tokens);
    for (int64_t i = 0; i < before.rows() * before.columns(); ++i) {
      ASSERT_NEAR(before.data()[i], after.data()[i], tolerance);
    }
  }
  // Returns the size of the difference as a share of the size of `a`.
  static double error_share(const Matrix& a, const Matrix& b) {
    double error = 0.0, size = 0.0;
    for (int64_t i = 0; i < a.rows() * a.columns(); ++i) {
      error += std::pow(b.data()[i] - a.data()[i], 2);
      size += std::pow(a.data()[i], 2);
    }
    return std::sqrt(error / size);
  }
  // Writes the mixture without bases whose weights are the products of those in `out`.
  void write_products(const std::string& out, model::ModelFolder& folder) {
    const auto checkpoint = io::Checkpoint::open(path(out)).value();
    const auto matrix = [&](const std::string& name) {
      return to_double_matrix(checkpoint.tensors().at(name));
    };
    model::TestTensors products = tensors_;
    for (auto& [name, tensor] : products) {
      const size_t part = name.find(".mlp.experts.");
      if (part == std::string::npos) continue;
      const std::string layer = name.substr(0, part + 5);
      const bool down = name.ends_with("down_proj.weight");
      const DoubleMatrix product =
          down ? naive_product(matrix(layer + "output_basis_proj.weight"), matrix(name))
               : naive_product(matrix(name), matrix(layer + "input_basis_proj.weight"));
      tensor.shape = {product.rows(), product.columns()};
      tensor.values.clear();
      for (int64_t i = 0; i < product.rows(); ++i) {
        for (int64_t j = 0; j < product.columns(); ++j) {
          tensor.values.push_back(static_cast<float>(product(i, j)));
        }
      }
    }
    write_model(folder, products);
  }
};

TEST_F(MixturesOnBases, LoseNothingThatExpertsDoNotUse) {
  use_mixture(4, 2, share_dimensions);
  for (const Allocate allocate : {Allocate::kUniform, Allocate::kPredicted}) {
    const auto summary = run_well(on_bases("out", Form::kBasis, allocate, 0.5));
    EXPECT_EQ(summary.plan.parameters_after, summary.parameters_after);
    EXPECT_EQ(summary.plan.bytes_after, summary.bytes_after);
    EXPECT_LE(summary.parameters_after,
              summary.parameters_before - 3 * kHidden * kInner * 4 * kLayers * 45 / 100);
    expect_same_logits(input_.path(), path("out"), 1e-3);
    fs::remove_all(path("out"));
  }
}

TEST_F(MixturesOnBases, ComputeWhatTheProductsOfTheirTensorsCompute) {
  const auto summary = run_well(on_bases("out", Form::kBasis, Allocate::kUniform));
  ASSERT_EQ(summary.experts->bases.size(), size_t{kLayers});
  const io::ModelConfig made = config_of("out");
  EXPECT_EQ(made.experts->bases, summary.experts->basis_ranks());
  EXPECT_TRUE(made.experts->widths.empty());
  EXPECT_EQ(made.compression->form, "basis");
  model::ModelFolder products;
  write_products("out", products);
  expect_same_logits(products.path(), path("out"), 2e-4);
}

TEST_F(MixturesOnBases, MayHaveFewerNeuronsToo) {
  const auto summary = run_well(on_bases("out", Form::kMixed, Allocate::kMeasured, 0.4));
  const io::ModelConfig made = config_of("out");
  EXPECT_EQ(made.experts->bases, summary.experts->basis_ranks());
  EXPECT_EQ(made.experts->widths, summary.experts->widths());
  EXPECT_EQ(summary.plan.parameters_after, summary.parameters_after);
  EXPECT_LE(summary.parameters_after,
            summary.parameters_before - 3 * kHidden * kInner * 4 * kLayers * 4 / 10);
}

TEST_F(MixturesOnBases, AreTheFormOfAutoUnlessSizesAreUniform) {
  EXPECT_EQ(run_well(on_bases("a", Form::kAuto, Allocate::kMeasured)).plan.form, Form::kMixed);
  EXPECT_EQ(run_well(on_bases("b", Form::kAuto, Allocate::kUniform)).plan.form, Form::kNeurons);
}

TEST_F(MixturesOnBases, AllTokensMayWantOneExpert) {
  use_mixture(4, 1, [](model::TestTensors& tensors) {
    share_dimensions(tensors);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      std::ranges::fill(tensors.at(mlp(layer) + "router.weight").values, 0.0f);
    }
  });
  const auto summary = run_well(on_bases("out", Form::kBasis, Allocate::kPredicted, 0.5));
  EXPECT_NE(completed_experts(summary.experts->uses()), "");
  expect_same_logits(input_.path(), path("out"), 1e-3);
}

TEST_F(MixturesOnBases, ThreadsChangeNothing) {
  expect_threads_change_nothing(on_bases("out", Form::kMixed, Allocate::kPredicted));
}

// The run stops once after each part of the text, and then once more before the folder is written.
TEST_F(MixturesOnBases, AnInterruptedRunContinues) {
  const CompressRequest whole = on_bases("whole", Form::kMixed, Allocate::kPredicted);
  run_well(whole);
  int64_t calls = 0;
  backend_.on_attention = [&] { set_interrupted(++calls == 7); };
  const CompressRequest parts = on_bases("parts", Form::kMixed, Allocate::kPredicted);
  ASSERT_FALSE(run(parts).ok());
  set_interrupted(false);
  backend_.on_attention = [] {};
  const auto stopped =
      compress(parts, backend_, silent_, {}, {}, nullptr,
               [](const CompressSummary&) -> Status { return fail("stopped before the end"); });
  ASSERT_FALSE(stopped.ok());
  ASSERT_TRUE(fs::exists(path("parts.partial"))) << stopped.error().message;
  // An expert that is lost is made again, for the bases that are there.
  fs::path work;
  for (const auto& entry : fs::recursive_directory_iterator(path("parts.partial"))) {
    if (entry.path().filename() == "expert-00001-00002.safetensors") work = entry.path();
  }
  ASSERT_FALSE(work.empty());
  fs::remove(work);
  run_well(parts);
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

TEST_F(MixturesOnBases, HaveBasesOf8BitsBesideWeightsOf4) {
  CompressRequest wanted = on_bases("four", Form::kBasis, Allocate::kUniform);
  wanted.weights = quantized_formats(4);
  const auto summary = run_well(wanted);
  EXPECT_EQ(summary.plan.bytes_after, summary.bytes_after);
  const io::ModelConfig made = config_of("four");
  EXPECT_EQ(made.quantization->format_of(mlp(0) + "input_basis_proj.weight").bits, 8);
  EXPECT_EQ(made.quantization->format_of(mlp(0) + "output_basis_proj.weight").bits, 8);
  EXPECT_EQ(made.quantization->format_of(expert(0, 0) + "up_proj.weight").bits, 4);
}

// The Gram matrix of what experts read is that of x behind the basis.
TEST_F(MixturesOnBases, StatisticsOfACompressedMixtureAreThoseOfItsBases) {
  run_well(on_bases("small", Form::kBasis, Allocate::kUniform));
  const io::ModelConfig config = config_of("small");
  const auto checkpoint = io::Checkpoint::open(path("small")).value();
  const auto tokenizer = text::Tokenizer::load(path("small")).value();
  auto text = calibration_sequences(tokenizer, {{"text", text_}}, 400, config).value();
  fs::create_directories(path("work"));
  const auto done = gather_statistics({checkpoint, config, backend_, &text, silent_}, path("work"),
                                      Gathered::kAllLinears);
  ASSERT_TRUE(done.ok()) << done.error().message;
  const int64_t rank = config.experts->bases[0].input;
  const DoubleMatrix a_t =
      to_double_matrix(checkpoint.tensors().at(mlp(0) + "input_basis_proj.weight"));
  const DoubleMatrix in = read_layer_inputs(path("work"), 0, config).value();
  const DoubleMatrix expected = naive_product(naive_product(a_t, in), transposed(a_t));
  double weight = 0.0, trace = 0.0;
  const auto uses = read_expert_uses(path("work"), config).value();
  for (const ExpertUse& use : uses[0]) {
    ASSERT_FALSE(use.of_layer);
    weight += use.squares;
  }
  EXPECT_GT(weight, 0.0);
  for (int64_t e = 0; e < 4; ++e) {
    const MlpStatistics own = read_expert_statistics(path("work"), 0, e, config).value();
    ASSERT_EQ(own.in.rows(), kHidden);
    for (int64_t i = rank; i < kHidden; ++i) EXPECT_EQ(own.in(i, i), 0.0);
    for (int64_t i = 0; i < rank; ++i) trace += own.in(i, i);
  }
  // Both experts of a token count with w² <= 1, and their weights add up to 1.
  double all = 0.0;
  for (int64_t i = 0; i < rank; ++i) all += expected(i, i);
  EXPECT_LE(trace, all * (1.0 + 1e-6));
  EXPECT_GE(trace, 0.5 * all * (1.0 - 1e-6));
  const DoubleMatrix outputs = read_basis_outputs(path("work"), 0, config).value();
  const int64_t written = config.experts->bases[0].output;
  EXPECT_GT(outputs(written - 1, written - 1), 0.0);
  for (int64_t i = written; i < kHidden; ++i) EXPECT_EQ(outputs(i, i), 0.0);
}

TEST_F(MixturesOnBases, AreRounded) {
  use_mixture(4, 2, [](model::TestTensors& tensors) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {  // rounding changes no choice
      std::ranges::fill(tensors.at(mlp(layer) + "router.weight").values, 0.0f);
    }
  });
  run_well(on_bases("small", Form::kBasis, Allocate::kUniform));
  const auto tokens = model::random_tokens(40, config_.vocab_size, 3);
  const Matrix before = logits(path("small"), tokens);
  double last = 0.0;  // the error of the rounding to nearest of more bits
  for (const int bits : {8, 6, 4}) {
    SCOPED_TRACE(testing::Message() << bits << " bits");
    double nearest = 0.0;
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kGptq}) {
      const bool by_text = rounding == Rounding::kGptq;
      QuantizeRequest wanted = {.model = path("small"),
                                .out = path("rounded"),
                                .formats = quantized_formats(bits),
                                .rounding = rounding,
                                .smooth = by_text,
                                .force = true};
      if (by_text) wanted.calibration = CalibrationText{{{"text.txt", text_}}};
      const auto rounded = quantize(wanted, backend_, silent_);
      ASSERT_TRUE(rounded.ok()) << rounded.error().message;
      const io::ModelConfig made = config_of("rounded");
      EXPECT_EQ(made.experts->bases, config_of("small").experts->bases);
      EXPECT_EQ(made.quantization->format_of(mlp(0) + "input_basis_proj.weight").bits, 8);
      EXPECT_EQ(made.quantization->format_of(expert(0, 0) + "up_proj.weight").bits, bits);
      const double share = error_share(before, logits(path("rounded"), tokens));
      if (by_text) {
        EXPECT_LE(share, 2.0 * nearest);
      } else {
        EXPECT_GT(share, last);
        last = nearest = share;
      }
    }
    EXPECT_LE(nearest, bits == 8 ? 0.1 : 1.0);
  }
}

TEST_F(MixturesOnBases, SizesThatCannotBeAreRefused) {
  CompressRequest coarse = on_bases("out", Form::kBasis, Allocate::kUniform, 0.1);
  coarse.rule.block = kHidden;
  expect_refused(coarse, {"bases of 32 of 32", "save nothing", "larger ratio"});
  expect_refused(on_bases("out", Form::kBasis, Allocate::kPredicted, 0.95),
                 {"form basis", "smaller ratio or a smaller block"});
  expect_refused(on_bases("out", Form::kMixed, Allocate::kUniform),
                 {"form mixed", "allocate predicted"});
  config_ = small_config();
  tensors_ = model::random_tensors(config_, 3);
  write_model(input_, tensors_);
  expect_refused(on_bases("out", Form::kBasis, Allocate::kPredicted),
                 {"form basis", "mixtures of experts, found none"});
}

}  // namespace
}  // namespace neuronmm::compress
