// Tests measured losses against models that have the changed MLPs, and whole compressions that
// choose sizes by them.

#include "compress/sizes/measured_losses.h"

#include <cmath>

#include "compress/compress_test.h"
#include "compress/expected_divergence.h"
#include "compress/factors/narrow_weights.h"
#include "compress/sizes/dense_reference.h"
#include "compress/sizes/shape_search.h"
#include "io/checkpoint.h"

namespace neuronmm::compress {
namespace {

class MeasuredLosses : public CompressTest {
 protected:
  CompressRequest measured(const std::string& out, Form form) const {
    CompressRequest request = CompressTest::request(out);
    request.form = form;
    request.allocate = Allocate::kMeasured;
    request.rule = {0.4, 4};
    return request;
  }
  // Returns the mean over the tokens of all sequences of KL(dense || the model in `folder`).
  double divergence(const fs::path& folder,
                    const std::vector<std::vector<text::TokenId>>& sequences) {
    long double sum = 0;
    int64_t rows = 0;
    for (const auto& sequence : sequences) {
      const Matrix dense = logits(input_.path(), sequence), other = logits(folder, sequence);
      for (int64_t t = 0; t < dense.rows(); ++t) {
        sum += expected_divergence(dense.row(t), other.row(t), dense.columns());
      }
      rows += dense.rows();
    }
    return static_cast<double>(sum / rows);
  }
};

// Returns the dense weights of one layer without some of the neurons.
NarrowMlp without_neurons(const model::TestTensors& tensors, int64_t layer, int64_t kept) {
  NarrowMlp mlp;
  for (const MlpMatrix which : kMlpMatrices) {
    const auto& values = tensors.at(mlp_name(layer, which, "_proj")).values;
    const bool down = which == MlpMatrix::kDown;
    DoubleMatrix few(down ? kHidden : kept, down ? kept : kHidden);
    for (int64_t i = 0; i < few.rows(); ++i) {
      for (int64_t j = 0; j < few.columns(); ++j) {
        few(i, j) = values[static_cast<size_t>(i * (down ? kInner : kHidden) + j)];
      }
    }
    mlp.tensors.push_back({std::string(matrix_name(which)) + "_proj.weight", std::move(few), {}});
  }
  return mlp;
}

TEST_F(MeasuredLosses, DivergencesWithAnotherMlpAreThoseOfSuchAModel) {
  const std::vector<std::vector<text::TokenId>> sequences = {model::random_tokens(40, 256, 1),
                                                             model::random_tokens(17, 256, 2)};
  const auto checkpoint = io::Checkpoint::open(input_.path());
  ASSERT_TRUE(checkpoint.ok());
  const CompressionInputs inputs = {*checkpoint, config_, backend_, nullptr, silent_};
  const auto reference = DenseReference::run(inputs, sequences);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  constexpr int64_t kKept = 40;
  model::TestTensors all = tensors_;
  const auto forget = [](model::TestTensors& tensors, int64_t layer) {
    auto& down = tensors.at(mlp_name(layer, MlpMatrix::kDown, "_proj")).values;
    for (size_t i = 0; i < down.size(); ++i) {
      if (static_cast<int64_t>(i % kInner) >= kKept) down[i] = 0.0f;
    }
  };
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    model::TestTensors one = tensors_;
    forget(one, layer);
    forget(all, layer);
    model::ModelFolder folder;
    write_model(folder, one);
    const NarrowWeights weights(without_neurons(tensors_, layer, kKept), DType::kF32);
    const double expected = divergence(folder.path(), sequences);
    EXPECT_GT(expected, 1e-5);
    // Logits are rounded to fp32, and a divergence is quadratic in their difference.
    EXPECT_NEAR(reference->divergence_with(layer, weights.mlp()), expected, 1e-4 * expected);
  }
  model::ModelFolder folder;
  write_model(folder, all);
  const auto with_neurons = [&](int64_t kept) -> WithMlp {
    return [this, kept](int64_t layer, const auto& use) -> Status {
      use(NarrowWeights(without_neurons(tensors_, layer, kept), DType::kF32).mlp());
      return {};
    };
  };
  const auto found = reference->divergence_of(with_neurons(kKept));
  ASSERT_TRUE(found.ok());
  const double expected = divergence(folder.path(), sequences);
  EXPECT_NEAR(*found, expected, 1e-4 * expected);
  EXPECT_EQ(*reference->divergence_of(with_neurons(kInner)), 0.0);
}

TEST_F(MeasuredLosses, LogitsThatAreNotKeptAreComputedAgain) {
  const std::vector<std::vector<text::TokenId>> sequences(4, model::random_tokens(150, 256, 1));
  const auto checkpoint = io::Checkpoint::open(input_.path());
  ASSERT_TRUE(checkpoint.ok());
  const CompressionInputs inputs = {*checkpoint, config_, backend_, nullptr, silent_};
  const NarrowWeights weights(without_neurons(tensors_, 1, 40), DType::kF32);
  std::vector<double> found;
  for (const int64_t rows : {600, 599, 300, 0}) {
    const int64_t bytes = rows * config_.vocab_size * static_cast<int64_t>(sizeof(float));
    const auto reference = DenseReference::run(inputs, sequences, bytes);
    ASSERT_TRUE(reference.ok()) << reference.error().message;
    found.push_back(reference->divergence_with(1, weights.mlp()));
  }
  EXPECT_GT(found[0], 1e-5);
  EXPECT_EQ(found, std::vector<double>(found.size(), found[0]));
}

// Compares other weights of one layer's attention or of the LM head with folders that have them.
TEST_F(MeasuredLosses, DivergencesWithOtherAttentionAndHeadsAreThoseOfSuchModels) {
  const std::vector<std::vector<text::TokenId>> sequences = {model::random_tokens(40, 256, 1),
                                                             model::random_tokens(17, 256, 2)};
  const auto checkpoint = io::Checkpoint::open(input_.path());
  ASSERT_TRUE(checkpoint.ok());
  const CompressionInputs inputs = {*checkpoint, config_, backend_, nullptr, silent_};
  const auto reference = DenseReference::run(inputs, sequences);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  // Every seventh weight is 0.
  const auto expect = [&](const std::string& name, const auto& divergence_with) {
    SCOPED_TRACE(name);
    model::TestTensors tensors = tensors_;
    model::TestTensor& tensor = tensors.at(name);
    for (size_t i = 0; i < tensor.values.size(); i += 7) tensor.values[i] = 0.0f;
    model::ModelFolder folder;
    write_model(folder, tensors);
    const double expected = divergence(folder.path(), sequences);
    EXPECT_GT(expected, 1e-5);
    const TensorView changed = {DType::kF32, tensor.shape,
                                reinterpret_cast<const std::byte*>(tensor.values.data())};
    EXPECT_NEAR(divergence_with(changed), expected, 1e-4 * expected);
  };
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (const char letter : {'q', 'k', 'v', 'o'}) {
      expect(fmt::format("model.layers.{}.self_attn.{}_proj.weight", layer, letter),
             [&](const TensorView& changed) {
               model::LayerWeights weights = reference->weights(layer);
               (letter == 'q'   ? weights.q
                : letter == 'k' ? weights.k
                : letter == 'v' ? weights.v
                                : weights.o)
                   .w_t = changed;
               return reference->divergence_with_attention(layer, weights);
             });
    }
  }
  expect("lm_head.weight", [&](const TensorView& changed) {
    ops::LinearWeight head;
    head.w_t = changed;
    return reference->divergence_with_head(*backend_.make_linear(head));
  });
  expect("model.embed_tokens.weight", [&](const TensorView& changed) {
    Matrix embedded(57, config_.hidden_size);
    model::embed(changed, sequences[0], 1.0, embedded.view().row_range(0, 40));
    model::embed(changed, sequences[1], 1.0, embedded.view().row_range(40, 17));
    ops::LinearWeight head;
    head.w_t = checkpoint->tensors().at("lm_head.weight");
    return reference->divergence_with_table(*backend_.make_linear(head), std::move(embedded));
  });
}

TEST(CorrectLosses, CorrectedLossesAreTheMeasuredOnesAtTheMeasuredShapes) {
  PredictedLosses curves;
  curves.input = {5, 3, 1, 0};
  curves.output = {4, 2, 1, 0};
  curves.neurons = {8, 4, 2, 1, 0};
  curves.gate = curves.up = {3, 2, 1, 0};
  std::vector<PredictedLosses> losses(4, curves);
  const std::vector<io::MlpShape> shapes = {
      {.input = 1, .neurons = 3}, {.gate = 1, .up = 2, .down = 1}, {}, {.neurons = 1}};
  correct_losses(shapes, {8.0, 40.0, 0.0, 0.0}, losses);
  EXPECT_EQ(losses[0].input, (std::vector<double>{10, 6, 2, 0}));  // measured 8, predicted 4
  EXPECT_EQ(losses[0].neurons, (std::vector<double>{16, 8, 4, 2, 0}));
  EXPECT_EQ(losses[1].output, (std::vector<double>{32, 16, 8, 0}));  // measured 40, predicted 5
  EXPECT_EQ(losses[1].up, (std::vector<double>{24, 16, 8, 0}));
  // Layer 2 is whole and layer 3 has no measured loss: both get the geometric mean of 2 and 8.
  for (const size_t layer : {2, 3}) {
    for (size_t i = 0; i < curves.neurons.size(); ++i) {
      EXPECT_NEAR(losses[layer].neurons[i], 4 * curves.neurons[i], 1e-12);
    }
  }
}

// The LM head ignores what the last MLP writes. The statistics of the layer cannot show that.
TEST_F(MeasuredLosses, AnMlpWithoutEffectIsMadeSmaller) {
  auto& down = tensors_.at(mlp_name(kLayers - 1, MlpMatrix::kDown, "_proj")).values;
  for (size_t i = 0; i < down.size(); ++i) down[i] = i / kInner == 3 ? 4.0f * down[i] : 0.0f;
  auto& norm = tensors_.at("model.norm.weight").values;
  norm.at(3) = 0.0f;
  write_model(input_, tensors_);
  CompressRequest request = measured("out", Form::kNeurons);
  const auto measured_layers = run_well(request).layers;
  request.allocate = Allocate::kPredicted;
  request.out = path("predicted");
  const auto predicted_layers = run_well(request).layers;
  const io::MlpShape& last = measured_layers.back().shape;
  EXPECT_LT(last.neurons, predicted_layers.back().shape.neurons);
}

TEST_F(MeasuredLosses, EveryFormKeepsItsBudget) {
  for (const Form form :
       {Form::kUv, Form::kPivoted, Form::kNarrow, Form::kNeurons, Form::kMixed, Form::kAuto}) {
    SCOPED_TRACE(form_name(form));
    const CompressSummary summary = run_well(measured("out", form));
    const int64_t dense = 3 * kHidden * kInner * kLayers;
    EXPECT_LE(static_cast<double>(dense - summary.parameters_before + summary.parameters_after),
              0.6 * static_cast<double>(dense));
    const auto config = io::ModelConfig::load(path("out") / "config.json");
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(config->compression->allocate, "measured");
    fs::remove_all(path("out"));
  }
}

// Compares the losses in the choice with the folders of the two models.
TEST_F(MeasuredLosses, TheSizesWhoseModelIsBetterAreWritten) {
  for (float& value : tensors_.at(mlp_name(1, MlpMatrix::kDown, "_proj")).values) value *= 10.0f;
  write_model(input_, tensors_);
  bool seen_measured = false, seen_predicted = false;
  // At the first ratio the losses of single layers add up; at the second they do not.
  for (const double ratio : {0.5, 0.85}) {
    SCOPED_TRACE(ratio);
    CompressRequest request = measured("measured", Form::kNeurons);
    request.rule.ratio = ratio;
    request.calibration = {{{"text.txt", random_text(7000, 5)}}, 750};
    const CompressSummary summary = run_well(request);
    ASSERT_TRUE(summary.sizes);
    const SizeChoice& choice = *summary.sizes;
    EXPECT_TRUE(choice.held_out);
    EXPECT_GT(choice.measured, 0.0);
    request.out = path("predicted");
    request.allocate = Allocate::kPredicted;
    run_well(request);
    const bool same_sizes = bytes("predicted") == bytes("measured");
    EXPECT_EQ(same_sizes, !choice.uses_measured() || choice.measured == choice.predicted);
    const auto config = io::ModelConfig::load(path("measured") / "config.json");
    ASSERT_TRUE(config.ok());
    EXPECT_EQ(config->compression->allocate, choice.uses_measured() ? "measured" : "predicted");
    // The smaller loss is that of the model that was written.
    const auto tokenizer = text::Tokenizer::load(input_.path());
    ASSERT_TRUE(tokenizer.ok());
    const auto text = calibration_sequences(*tokenizer, request.calibration->texts, 750, config_);
    ASSERT_TRUE(text.ok());
    const double expected = divergence(path("measured"), text->held_out);
    EXPECT_NEAR(std::min(choice.measured, choice.predicted), expected, 1e-4 * expected);
    (choice.uses_measured() ? seen_measured : seen_predicted) = true;
    fs::remove_all(path("measured"));
    fs::remove_all(path("predicted"));
  }
  EXPECT_TRUE(seen_measured && seen_predicted);
}

TEST(SizeChoiceText, TheChosenSizesAreNamedFirst) {
  EXPECT_EQ(size_choice_text({true, 0.1412, 0.0925}),
            "by measured losses, KL 0.0925 on held-out tokens where those by predicted ones have "
            "0.141");
  EXPECT_EQ(size_choice_text({false, 0.2, 0.25}),
            "by predicted losses, KL 0.2 on the calibration text where those by measured ones have "
            "0.25");
}

TEST_F(MeasuredLosses, AnInterruptedMeasurementContinuesAfterItsLastLayer) {
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(measured("whole", Form::kMixed));
  const int64_t all_calls = calls;
  for (int64_t stop = all_calls / 4; stop < all_calls; stop += all_calls / 6) {
    SCOPED_TRACE(fmt::format("after {} of {} attentions", stop, all_calls));
    calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls >= stop); };
    const auto stopped = run(measured("parts", Form::kMixed));
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    EXPECT_NE(stopped.error().message.find("same command"), std::string::npos);
    set_interrupted(false);
    const int64_t before = calls;
    calls = 0;
    backend_.on_attention = [&] { ++calls; };
    run_well(measured("parts", Form::kMixed));
    // The dense model and an unfinished layer may run once more.
    EXPECT_LE(before + calls, all_calls + 2 * kLayers);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(MeasuredLosses, ADamagedFileIsMeasuredAgain) {
  run_well(measured("whole", Form::kNeurons));
  int64_t calls = 0;
  // Counts the attention calls of the statistics, of the dense model, and of the layers after layer
  // 0.
  constexpr int64_t kStop = kSequences * kLayers + kLayers + (kLayers - 1);
  backend_.on_attention = [&] { set_interrupted(++calls >= kStop); };
  ASSERT_FALSE(run(measured("parts", Form::kNeurons)).ok());
  set_interrupted(false);
  backend_.on_attention = [] {};
  const fs::path file = path("parts.partial") / "work" / "measured-00000.safetensors";
  ASSERT_TRUE(fs::exists(file));
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-12, std::ios::end);
  stream.put('x');
  stream.close();
  run_well(measured("parts", Form::kNeurons));
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

TEST_F(MeasuredLosses, ThreadsDoNotChangeTheModel) {
  expect_threads_change_nothing(measured("out", Form::kMixed));
}

}  // namespace
}  // namespace neuronmm::compress
