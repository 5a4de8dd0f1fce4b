// This file tests whole compressions into every form, mostly forms other than uv, of tiny random
// models on the reference backend.

#include <cmath>
#include <limits>

#include "compress/compress_test.h"
#include "compress/factors/factorize.h"
#include "compress/factors/narrow_mlp.h"
#include "compress/factors/pivoting.h"
#include "io/checkpoint.h"
#include "model/tensor_specs.h"

namespace neuronmm::compress {
namespace {

class Shaped : public CompressTest {
 protected:
  CompressRequest shaped(const std::string& out, Form form, double ratio = 0.4) const {
    CompressRequest shaped = request(out);
    shaped.form = form;
    shaped.allocate = Allocate::kPredicted;
    shaped.rule = {ratio, 4};
    return shaped;
  }
  io::ModelConfig config_of(const std::string& out) const {
    auto config = io::ModelConfig::load(path(out) / "config.json");
    if (!config.ok()) throw std::runtime_error(config.error().message);
    return std::move(config).value();
  }
  // Compresses tensors_ to forms that can hold it, after its MLPs were made of low rank.
  void expect_reproduced();
  // Compresses tensors_ to half of the neurons, after down was made to read no others.
  void expect_no_cost_of_unread_neurons();
  // Counts the parameters of the MLPs in the folder itself. Indices of pivots, scales and groups
  // are not parameters.
  int64_t counted(const std::string& out) const {
    const auto checkpoint = io::Checkpoint::open(path(out));
    if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
    int64_t count = 0;
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      const bool weight = name.ends_with(".weight") && name.find(".mlp.") != std::string::npos;
      // A byte of a 4-bit weight holds two values.
      const int64_t in_a_byte = tensor.dtype == DType::kU8 ? 2 : 1;
      if (weight) count += in_a_byte * tensor.size();
    }
    return count;
  }
  // Expects maps of pivots to have 8 bits and the other weights to have the formats `asked`.
  void expect_formats(const std::string& out, const io::ModelConfig& config,
                      const QuantizedFormats& asked) const {
    const auto checkpoint = io::Checkpoint::open(path(out));
    ASSERT_TRUE(checkpoint.ok());
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      if (!model::is_linear(name, config)) continue;
      const bool map = name.ends_with("_pivot_proj.weight"), head = !name.ends_with("_proj.weight");
      const LowBitFormat expected = map ? LowBitFormat{} : head ? asked.lm_head : asked.linear;
      EXPECT_EQ(config.quantization->format_of(name), expected) << name;
      EXPECT_EQ(tensor.dtype, expected.bits == 8 ? DType::kI8 : DType::kU8) << name;
    }
  }
  // Returns the mean over positions of KL(dense || compressed), in nats.
  double divergence(const fs::path& folder) {
    const std::vector<text::TokenId> tokens = model::random_tokens(60, 256, 77);
    const Matrix dense = logits(input_.path(), tokens), other = logits(folder, tokens);
    double sum = 0.0;
    for (int64_t t = 0; t < dense.rows(); ++t) {
      const std::vector<double> p = log_probabilities(dense.row(t), dense.columns());
      const std::vector<double> q = log_probabilities(other.row(t), dense.columns());
      for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
    }
    return sum / static_cast<double>(dense.rows());
  }
  static std::vector<double> log_probabilities(const float* row, int64_t count) {
    std::vector<double> out(row, row + count);
    const double largest = *std::ranges::max_element(out);
    double sum = 0.0;
    for (const double value : out) sum += std::exp(value - largest);
    for (double& value : out) value -= largest + std::log(sum);
    return out;
  }
  void store_as_bf16() {
    for (auto& [name, tensor] : tensors_) tensor.dtype = DType::kBF16;
    write_model(input_, tensors_);
    std::string config = model::config_json(config_);
    const std::string written = "\"float32\"";
    config.replace(config.find(written), written.size(), "\"bfloat16\"");
    input_.write_text("config.json", config);
  }

  const int64_t dense_ = 3 * kHidden * kInner * kLayers;
};

constexpr Form kShapedForms[] = {Form::kPivoted, Form::kNarrow, Form::kNeurons, Form::kMixed,
                                 Form::kAuto};

TEST_F(Shaped, EveryFormAndDtypeKeepsTheRequestedShareAndRuns) {
  store_as_bf16();
  for (const Form form : kShapedForms) {
    for (const WeightFormats& weights : {kOriginal, kInt8, kInt4}) {
      for (const Allocate allocate : {Allocate::kPredicted, Allocate::kUniform}) {
        if (form == Form::kAuto && allocate == Allocate::kUniform) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", form_name(form), weights_text(weights),
                                 allocate_name(allocate)));
        CompressRequest asked = shaped("out", form);
        asked.weights = weights;
        asked.allocate = allocate;
        const CompressSummary summary = run_well(asked);
        const io::ModelConfig config = config_of("out");

        const int64_t kept = counted("out");
        // Sizes are the nearest multiples of 4, so they may exceed the ratio by half a block.
        EXPECT_LE(static_cast<double>(kept), (0.6 + 2.0 / kHidden) * static_cast<double>(dense_));
        EXPECT_GE(static_cast<double>(kept), 0.45 * static_cast<double>(dense_));
        EXPECT_EQ(summary.parameters_before - summary.parameters_after, dense_ - kept);
        EXPECT_EQ(summary.plan.parameters_after, summary.parameters_after);
        EXPECT_EQ(summary.plan.bytes_after, summary.bytes_after);

        ASSERT_TRUE(config.compression);
        const io::CompressionRecord& record = *config.compression;
        EXPECT_EQ(record.method, "whitened");
        EXPECT_EQ(record.ratio, 0.4);
        EXPECT_EQ(record.block, 4);
        EXPECT_EQ(record.allocate, allocate_name(allocate));
        EXPECT_EQ(record.form, form_name(summary.plan.form));
        EXPECT_TRUE(form == Form::kAuto || summary.plan.form == form);
        ASSERT_EQ(record.calibration.size(), 1u);
        EXPECT_EQ(record.calibration[0].tokens, summary.calibration_tokens);
        ASSERT_EQ(config.quantization.has_value(), weights.has_value());
        if (weights) expect_formats("out", config, *weights);

        ASSERT_EQ(summary.layers.size(), static_cast<size_t>(kLayers));
        const MlpSizes sizes = {kHidden, kInner};
        int64_t of_shapes = 0;
        for (const LayerReport& layer : summary.layers) {
          of_shapes += sizes.parameters(layer.shape);
          EXPECT_NEAR(layer.kept_share,
                      static_cast<double>(sizes.parameters(layer.shape)) /
                          static_cast<double>(sizes.dense_parameters()),
                      1e-12);
          EXPECT_LE(layer.largest_map, 1.05);
          EXPECT_GE(layer.predicted_loss, 0.0);
        }
        EXPECT_EQ(of_shapes, kept);
        EXPECT_TRUE(std::isfinite(divergence(path("out"))));

        asked.model = path("out");
        asked.out = path("twice");
        expect_refused(asked, {"compressed already"});
        fs::remove_all(path("out"));
      }
    }
  }
}

// A form that can hold the model loses nothing. The weights of this model need only half of the
// inputs and outputs.
TEST_F(Shaped, AModelThatFitsItsFormIsReproduced) { expect_reproduced(); }

// Biases, norms of outputs, offsets of gains and other activations must not be lost.
TEST_F(Shaped, AModelOfAnotherFamilyThatFitsItsFormIsReproduced) {
  for (const auto architecture :
       {io::Architecture::kGemma2, io::Architecture::kOlmo2, io::Architecture::kGranite}) {
    SCOPED_TRACE(io::architecture_name(architecture));
    use_family(architecture);
    expect_reproduced();
    fs::remove_all(path("narrow"));
    fs::remove_all(path("pivoted"));
  }
  use_family(io::Architecture::kLlama, true);
  expect_reproduced();
}

void Shaped::expect_reproduced() {
  std::mt19937_64 random(20261125);
  std::normal_distribution<float> normal(0.0f, 0.08f);
  const auto product = [&](int64_t rows, int64_t columns, int64_t rank) {
    std::vector<float> a(static_cast<size_t>(rows * rank)), b(static_cast<size_t>(rank * columns)),
        out(static_cast<size_t>(rows * columns));
    for (auto* values : {&a, &b}) {
      for (float& value : *values) value = 3.5f * normal(random);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < rank; ++k) {
        for (int64_t j = 0; j < columns; ++j) {
          out[static_cast<size_t>(i * columns + j)] +=
              0.5f * a[static_cast<size_t>(i * rank + k)] * b[static_cast<size_t>(k * columns + j)];
        }
      }
    }
    return out;
  };
  constexpr int64_t kPivots = 16;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    // Gate and up read the same 16 directions.
    const std::vector<float> both = product(2 * kInner, kHidden, kPivots);
    const auto half = std::ssize(both) / 2;
    tensors_.at(mlp_name(layer, MlpMatrix::kGate, "_proj")).values = {both.begin(),
                                                                      both.begin() + half};
    tensors_.at(mlp_name(layer, MlpMatrix::kUp, "_proj")).values = {both.begin() + half,
                                                                    both.end()};
    tensors_.at(mlp_name(layer, MlpMatrix::kDown, "_proj")).values =
        product(kHidden, kInner, kPivots);
  }
  write_model(input_, tensors_);
  CompressRequest narrow = shaped("narrow", Form::kNarrow);
  narrow.allocate = Allocate::kUniform;
  // Form narrow with r = 16 keeps (2·16·(32 - 16) + 3·16·64) / (3·32·64) = 0.5833 of an MLP.
  narrow.rule = {0.41, 16};
  const CompressSummary summary = run_well(narrow);
  for (const LayerReport& layer : summary.layers) {
    EXPECT_EQ(layer.shape, (io::MlpShape{.down = kPivots, .input = kPivots}));
    EXPECT_LE(layer.predicted_loss, 1e-9);
  }
  EXPECT_LE(divergence(path("narrow")), 1e-7);

  CompressRequest pivoted = shaped("pivoted", Form::kPivoted);
  pivoted.allocate = Allocate::kUniform;
  // Form pivoted with r = 16 keeps this share of an MLP: 16·(32 + 64 - 16) / (32·64) = 0.625.
  pivoted.rule = {0.2, 16};
  run_well(pivoted);
  EXPECT_EQ(config_of("pivoted").compression->ranks[0], (io::MlpShape{16, 16, 16, 0, 0}));
  EXPECT_LE(divergence(path("pivoted")), 1e-7);
}

// Form uv with sizes by predicted loss makes two factors per matrix, which any reader of U·V can
// load.
TEST_F(Shaped, PredictedSizesOfFormUvAreRecorded) {
  const CompressSummary summary = run_well(shaped("uv", Form::kUv));
  const MlpSizes sizes = {kHidden, kInner, true};
  int64_t parameters = 0;
  const auto config = config_of("uv");
  EXPECT_EQ(config.compression->form, "uv");
  for (size_t layer = 0; layer < summary.layers.size(); ++layer) {
    const io::MlpShape& shape = summary.layers[layer].shape;
    EXPECT_EQ(config.compression->ranks[layer], shape);
    parameters += sizes.parameters(shape);
  }
  EXPECT_LE(parameters, kLayers * sizes.dense_parameters());
  EXPECT_EQ(summary.parameters_before - summary.parameters_after,
            kLayers * sizes.dense_parameters() - parameters);
  EXPECT_TRUE(std::isfinite(divergence(path("uv"))));
}

TEST_F(Shaped, NeuronsThatDownDoesNotReadCostNothing) { expect_no_cost_of_unread_neurons(); }

TEST_F(Shaped, NeuronsThatDownDoesNotReadTakeTheirBiasesAlong) {
  use_family(io::Architecture::kLlama, true);
  expect_no_cost_of_unread_neurons();
}

void Shaped::expect_no_cost_of_unread_neurons() {
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    auto& values = tensors_.at(mlp_name(layer, MlpMatrix::kDown, "_proj")).values;
    for (size_t i = 0; i < values.size(); i += 2) values[i] = 0.0f;  // columns 0, 2, 4, ...
  }
  write_model(input_, tensors_);
  CompressRequest neurons = shaped("neurons", Form::kNeurons, 0.5);
  for (const Allocate allocate : {Allocate::kUniform, Allocate::kPredicted}) {
    neurons.allocate = allocate;
    const CompressSummary summary = run_well(neurons);
    for (const LayerReport& layer : summary.layers) EXPECT_EQ(layer.shape.neurons, kInner / 2);
    EXPECT_LE(divergence(path("neurons")), 1e-7);
    fs::remove_all(path("neurons"));
  }
}

// With fewer neurons and one size for all layers, the result is a dense model that any program can
// load.
TEST_F(Shaped, UniformNeuronsGiveAPlainDenseModel) {
  CompressRequest neurons = shaped("out", Form::kNeurons, 0.5);
  neurons.allocate = Allocate::kUniform;
  run_well(neurons);
  const io::ModelConfig config = config_of("out");
  EXPECT_EQ(config.intermediate_size, kInner / 2);
  for (const io::MlpShape& shape : config.compression->ranks) EXPECT_EQ(shape, io::MlpShape{});
  EXPECT_FALSE(fs::exists(path("out") / "modeling_neuronmm.py"));
  const auto checkpoint = io::Checkpoint::open(path("out"));
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->tensors().at(mlp_name(1, MlpMatrix::kDown, "_proj")).shape,
            (Shape{kHidden, kInner / 2}));
}

// The factors multiply out to the pivoted matrix, with the identity of the pivots in one of them.
// If the factors have few bits, the first is fitted to the rounded second.
TEST_F(Shaped, PivotedMatricesBecomeFactors) {
  std::mt19937_64 random(20261123);
  std::normal_distribution<double> normal;
  const auto random_matrix = [&](int64_t rows, int64_t columns) {
    DoubleMatrix matrix(rows, columns);
    for (int64_t i = 0; i < matrix.size(); ++i) matrix.data()[i] = normal(random);
    return matrix;
  };
  const std::vector<int32_t> index = {1, 2, 5, 7, 8, 11, 13};
  const int64_t rank = std::ssize(index), hidden = 20, inner = 30;
  const DoubleMatrix map_in = random_matrix(rank, hidden - rank), gate = random_matrix(inner, rank),
                     map_out = random_matrix(hidden - rank, rank),
                     down = random_matrix(rank, inner), up = random_matrix(inner, hidden);
  const NarrowMlp pivoted = {{{"gate_proj.weight", gate, {}},
                              {"gate_pivots", {}, index},
                              {"gate_pivot_proj.weight", map_in, {}},
                              {"up_proj.weight", up, {}},
                              {"down_proj.weight", down, {}},
                              {"down_pivots", {}, index},
                              {"down_pivot_proj.weight", map_out, {}}},
                             0.5};
  const DoubleMatrix of_gate =
      multiply(gate, Transpose::kNo, identity_and_map(index, transposed(map_in)), Transpose::kYes);
  const DoubleMatrix of_down =
      multiply(identity_and_map(index, map_out), Transpose::kNo, down, Transpose::kNo);
  for (const StoredFormat& stored : {StoredFormat(DType::kBF16), StoredFormat(LowBitFormat{}),
                                     StoredFormat(LowBitFormat{4, 16})}) {
    SCOPED_TRACE(fmt::format("format {}", stored.index()));
    const NarrowMlp found = with_factors(pivoted, stored);
    EXPECT_EQ(found.largest_map, 0.5);
    std::map<std::string, DoubleMatrix> factors;
    for (const MlpTensor& tensor : found.tensors) factors[tensor.name] = tensor.values;
    ASSERT_EQ(factors.size(), 5u);
    EXPECT_EQ(to_checkpoint(factors.at("up_proj.weight"), DType::kF64),
              to_checkpoint(up, DType::kF64));
    for (const auto& [which, product] :
         {std::pair("gate", &of_gate), std::pair("down", &of_down)}) {
      DoubleMatrix second = factors.at(std::string(which) + "_u_proj.weight");
      if (stored.index() == 1) {
        round_to(DType::kF32, second);
        round_to(stored, second);
      }
      const auto best = least_squares(second, *product);
      ASSERT_TRUE(best.ok());
      const DoubleMatrix& first = factors.at(std::string(which) + "_v_proj.weight");
      ASSERT_EQ(first.size(), best->size());
      for (int64_t i = 0; i < first.size(); ++i) {
        ASSERT_NEAR(first.data()[i], best->data()[i], 1e-9) << which;
      }
    }
  }
}

// Neurons of zeros change only the sizes that the folder has.
TEST_F(Shaped, PaddedNeuronsGiveAPlainDenseModel) {
  for (const WeightFormats& weights : {kOriginal, kInt8, kInt4}) {
    SCOPED_TRACE(weights_text(weights));
    CompressRequest neurons = shaped("own", Form::kNeurons, 0.5);
    neurons.weights = weights;
    const std::vector<LayerReport> own = run_well(neurons).layers;
    int64_t widest = 0, least = kInner;
    for (const LayerReport& layer : own) {
      widest = std::max(widest, layer.shape.neurons);
      least = std::min(least, layer.shape.neurons);
    }
    ASSERT_LT(least, widest);
    neurons.out = path("padded");
    neurons.pad = true;
    const CompressSummary summary = run_well(neurons);
    const io::ModelConfig config = config_of("padded");
    EXPECT_EQ(config.intermediate_size, widest);
    for (const io::MlpShape& shape : config.compression->ranks) EXPECT_EQ(shape, io::MlpShape{});
    EXPECT_EQ(fs::exists(path("padded") / "modeling_neuronmm.py"), weights.has_value());
    EXPECT_EQ(counted("padded"), 3 * kHidden * widest * kLayers);
    EXPECT_EQ(summary.parameters_before - summary.parameters_after, dense_ - counted("padded"));
    EXPECT_EQ(summary.plan.parameters_after, summary.parameters_after);
    for (size_t layer = 0; layer < own.size(); ++layer) {
      EXPECT_EQ(summary.layers[layer].shape, own[layer].shape);
      EXPECT_NEAR(summary.layers[layer].kept_share, static_cast<double>(widest) / kInner, 1e-12);
    }
    const double expected = divergence(path("own"));
    // The groups of rounded weights end at other columns.
    const double slack = weights == kOriginal ? 1e-5 : weights == kInt8 ? 0.05 : 0.3;
    EXPECT_NEAR(divergence(path("padded")), expected, slack * expected);
    fs::remove_all(path("own"));
    fs::remove_all(path("padded"));
  }
}

TEST_F(Shaped, ALargerBudgetIsPredictedToLoseLess) {
  for (const Form form : kShapedForms) {
    double before = 0.0;
    for (const double ratio : {0.1, 0.3, 0.5, 0.7}) {
      const CompressSummary summary = run_well(shaped("out", form, ratio));
      double loss = 0.0;
      for (const LayerReport& layer : summary.layers) loss += layer.predicted_loss;
      EXPECT_GE(loss, before) << form_name(form) << " " << ratio;
      before = loss;
      fs::remove_all(path("out"));
    }
  }
}

TEST_F(Shaped, TheModelDoesNotDependOnTheNumberOfThreads) {
  for (const Form form : {Form::kPivoted, Form::kMixed}) {
    SCOPED_TRACE(form_name(form));
    expect_threads_change_nothing(shaped("out", form));
  }
}

TEST_F(Shaped, RefusesOptionsThatTheFormDoesNotHave) {
  CompressRequest request = shaped("out", Form::kMixed);
  request.calibration.reset();
  expect_refused(request, {"form mixed needs calibration, self_generated or statistics"});
  request = shaped("out", Form::kNarrow);
  request.method = Method::kSvd;
  expect_refused(request, {"form narrow", "whitened and two-sided", "svd"});
  request = shaped("out", Form::kMixed);
  request.pad = true;
  expect_refused(request, {"pad is for form neurons", "found form mixed"});
  // shaped() asks for predicted allocation.
  request = shaped("out", Form::kUv);
  request.method = Method::kSvd;
  expect_refused(request, {"form uv with predicted sizes", "svd"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Shaped, TooLittleTextIsRefused) {
  CompressRequest request = shaped("out", Form::kMixed);
  request.calibration->texts[0].text = "only a few letters";
  expect_refused(request, {"tokens", std::to_string(kHidden)});
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST_F(Shaped, ImpossibleSizesAreRefused) {
  CompressRequest request = shaped("out", Form::kMixed, 0.9);
  request.rule.block = 32;
  expect_refused(request, {"form mixed with block 32 keeps at least"});
  request = shaped("out", Form::kNeurons, 0.01);
  request.allocate = Allocate::kUniform;
  request.rule = {0.01, 64};
  expect_refused(request, {"ratio 0.01 with block 64", "saves nothing"});
  EXPECT_FALSE(fs::exists(path("out")));
}

// If two neurons are equal, one of them stays and gets the sum of both columns of down.
TEST_F(Shaped, ValuesBeyondTheRangeOfTheirDtypeAreRefused) {
  model::TestTensors twins = tensors_;
  for (auto& [name, tensor] : twins) tensor.dtype = DType::kF16;
  for (const MlpMatrix matrix : {MlpMatrix::kGate, MlpMatrix::kUp}) {
    auto& values = twins.at(mlp_name(1, matrix, "_proj")).values;
    for (int64_t i = 0; i < kInner / 2; ++i) {
      std::copy_n(values.begin() + i * kHidden, kHidden,
                  values.begin() + (kInner / 2 + i) * kHidden);
    }
  }
  std::ranges::fill(twins.at(mlp_name(1, MlpMatrix::kDown, "_proj")).values, 4e4f);
  write_model(input_, twins);
  CompressRequest request = shaped("out", Form::kNeurons, 0.5);
  request.allocate = Allocate::kUniform;
  expect_refused(request, {input_.path().string(), "layer 1 down_proj.weight", "beyond", "F16"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Shaped, ErrorsNameTheLayerOfAWeightThatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    model::TestTensors spoilt = tensors_;
    spoilt.at(mlp_name(1, MlpMatrix::kDown, "_proj")).values[5] = bad;
    write_model(input_, spoilt);
    expect_refused(shaped("out", Form::kMixed), {input_.path().string(), "layer 1"});
    EXPECT_FALSE(fs::exists(path("out")));
  }
}

}  // namespace
}  // namespace neuronmm::compress
