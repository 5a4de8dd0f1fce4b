// Tests layers with the switches that no golden model has, the gradients of MLP outputs, and the
// training of single layers.

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "finite_differences.h"
#include "model/layer_weights.h"
#include "training/layer_training.h"
#include "training/model_training.h"
#include "training/output_gradients.h"

namespace neuronmm::training {
namespace {

using io::Architecture;
using io::ModelConfig;

// The config of a written model, and changes of it that no tensor shows.
struct LayerCase {
  const char* name;
  Architecture architecture;
  std::function<void(ModelConfig&)> change;
};

class LayerGradients : public testing::TestWithParam<LayerCase> {};

TEST_P(LayerGradients, AgreeWithDifferences) {
  ModelConfig config = model::tiny_config(GetParam().architecture);
  const auto opened = open_drawn_model<double>(config, drawn_tensors(config));
  config = opened->config();
  GetParam().change(config);
  Angles<double> angles(config);
  const auto weights = model::layer_weights(opened->checkpoint(), config, 0).value();
  Layer<double> layer(config, weights, "model.layers.0.", angles);
  const Sequences sequences = {{6, 1, 4}};
  Differences differences([&](Tape<double>& tape, const std::vector<Value64>& in) {
    return layer.run(tape, in[0], sequences);
  });
  differences.add_input(sequences.tokens(), config.hidden_size);
  layer.for_each_parameter(
      [&](Parameter<double>& parameter) { differences.add_parameter(parameter); });
  differences.compare_directions();
}

INSTANTIATE_TEST_SUITE_P(
    Switches, LayerGradients,
    testing::Values(LayerCase{"NormsAfterRope", Architecture::kQwen3,
                              [](ModelConfig& config) { config.qk_norm_after_rope = true; }},
                    LayerCase{"Temperature", Architecture::kQwen2,
                              [](ModelConfig& config) {
                                config.query_temperature = {0.6, 2};
                              }},
                    LayerCase{"MixtureOfShares", Architecture::kOlmoe, [](ModelConfig&) {}},
                    LayerCase{"MixtureWithSinks", Architecture::kGptOss, [](ModelConfig&) {}},
                    LayerCase{
                        "NoRope", Architecture::kLlama,
                        [](ModelConfig& config) { config.fill_layers({.rope = io::kNoRope}); }},
                    LayerCase{"PartialRope", Architecture::kLlama,
                              [](ModelConfig& config) { config.ropes[0].rotary_width = 2; }},
                    LayerCase{"Everything", Architecture::kGemma2,
                              [](ModelConfig& config) {
                                config.residual_scale = 0.4;
                                config.query_temperature = {0.6, 2};
                                config.fill_layers({.window = 2});
                              }}),
    [](const auto& with) { return with.param.name; });

// The gradients of each layer's outputs of all tokens, in the order of the layers.
struct Observed {
  std::vector<std::vector<double>> gate, up, down;
  OwnLabels own;
};

std::vector<double> values_of(MatrixView<const double> x) {
  std::vector<double> values;
  for (int64_t i = 0; i < x.rows; ++i) values.insert(values.end(), x.row(i), x.row(i) + x.columns);
  return values;
}

Observed observe(Model<double>& model, std::span<const TokenSequence> sequences,
                 int64_t first_sequence = 0) {
  Observed all;
  const auto layers = static_cast<size_t>(model.num_layers());
  all.gate.resize(layers);
  all.up.resize(layers);
  all.down.resize(layers);
  OutputObserver<double> observer;
  observer.on_layer = [&](int64_t layer, const MlpGradients<double>& of) {
    const auto i = static_cast<size_t>(layer);
    EXPECT_TRUE(all.gate[i].empty());
    all.gate[i] = values_of(of.gate);
    all.up[i] = values_of(of.up);
    all.down[i] = values_of(of.down);
  };
  all.own = output_gradients(model, sequences, 5, first_sequence, observer).value();
  return all;
}

// The sum of an output's gradients over the tokens is the gradient of that output's bias. With one
// token it is the token's own.
TEST(OutputGradients, AddUpToThoseOfTheBiases) {
  for (const std::string name : {"biases", "mixed"}) {
    for (const int64_t length : {1, 6}) {
      const ModelConfig config = drawn_config(name);
      const auto model = open_drawn_model<double>(config, drawn_tensors(config));
      const std::vector<TokenSequence> sequences = drawn_sequences({length}, config.vocab_size);
      const Observed observed = observe(*model, sequences);
      model->train([](std::string_view) { return true; });
      Tape<double> tape(Precision::kFp32);
      Tensor<double> x = model->embed(tape, sequences);
      for (int64_t i = 0; i < 2; ++i) x = model->layer(i).run(tape, x, {{length}});
      Rows<double> gradient;
      const double loss = cross_entropy<double>(model->head(), x->view(), observed.own.labels[0],
                                                Precision::kFp32, 1.0, &gradient);
      EXPECT_NEAR(observed.own.loss, loss, 1e-12 * loss);
      x->gradient = std::move(gradient);
      tape.read_backwards();
      for (size_t i = 0; i < 2; ++i) {
        const auto expect_sums = [&](const Linear<double>& linear,
                                     const std::vector<double>& rows) {
          const int64_t columns = linear.bias.columns;
          ASSERT_EQ(std::ssize(rows), length * columns);
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0.0;
            for (int64_t t = 0; t < length; ++t) sum += rows[static_cast<size_t>(t * columns + j)];
            EXPECT_NEAR(sum, linear.bias.gradient.data()[j], 1e-12);
          }
        };
        Mlp<double>& mlp = model->layer(static_cast<int64_t>(i)).mlp();
        expect_sums(mlp.gate, observed.gate[i]);
        expect_sums(mlp.up, observed.up[i]);
        expect_sums(mlp.down, observed.down[i]);
      }
    }
  }
}

// A norm of the MLP's output comes after what is observed. The widths of all outputs are checked.
TEST(OutputGradients, AreTakenBeforeTheOutputsNorm) {
  const ModelConfig config = drawn_config("gemma2");
  const auto model = open_drawn_model<double>(config, drawn_tensors(config));
  const Observed observed = observe(*model, drawn_sequences({4}, config.vocab_size));
  Tape<double> silent(Precision::kFp32, false);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(std::ssize(observed.down[i]), 4 * config.hidden_size);
    EXPECT_EQ(std::ssize(observed.gate[i]), 4 * config.intermediate_size);
  }
}

TEST(OutputGradients, DoNotDependOnHowTheTextIsDivided) {
  const ModelConfig config = drawn_config("llama");
  const auto tensors = drawn_tensors(config);
  const auto model = open_drawn_model<double>(config, tensors);
  const auto sequences = drawn_sequences({5, 3}, config.vocab_size);
  const Observed whole = observe(*model, sequences);
  const Observed second = observe(*model, std::span(sequences).subspan(1), 1);
  EXPECT_EQ(whole.own.labels[1], second.own.labels[0]);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<double>& all = whole.down[i];
    EXPECT_TRUE(std::equal(second.down[i].begin(), second.down[i].end(),
                           all.end() - std::ssize(second.down[i])));
  }
  const model::ModelFolder folder;
  write_drawn_model(folder, config, tensors);
  const auto streamed =
      Model<double>::open(folder.path(), Precision::kFp32, Residence::kOneByOne).value();
  EXPECT_EQ(observe(*streamed, sequences).gate, whole.gate);
  EXPECT_FALSE(streamed->has_layer(0));
}

TEST(OutputGradients, RefuseWhatTheModelDoesNotTake) {
  const ModelConfig config = drawn_config("llama");
  const auto model = open_drawn_model<double>(config, drawn_tensors(config));
  const OutputObserver<double> observer = {[](int64_t, const MlpGradients<double>&) {}};
  const auto message = [&](std::vector<TokenSequence> sequences) {
    const auto own =
        output_gradients(*model, std::span<const TokenSequence>(sequences), 1, 0, observer);
    return own.ok() ? std::string() : own.error().message;
  };
  EXPECT_EQ(message({}), "expected at least one sequence, found none");
  EXPECT_EQ(message({{1}, {}}),
            "sequence 1: expected 1 to 64 tokens (max_position_embeddings), found 0");
  EXPECT_EQ(message({{1, 19}}), "sequence 0: expected tokens below the vocab_size 19, found 19");
}

// A layer and what another layer makes of another input.
struct Reconstruction {
  ModelConfig config = drawn_config("mixed");
  std::unique_ptr<Model<float>> student = open_drawn_model<float>(config, drawn_tensors(config));
  Sequences sequences = {{9, 5}};
  Rows<float> inputs = drawn_rows<float>("inputs", 14, 16);
  Rows<float> targets = drawn_rows<float>("targets", 14, 16);

  Layer<float>& layer() { return student->layer(0); }
};

TEST(LayerTraining, LowersTheErrorAndKeepsTheBest) {
  Reconstruction of;
  train<float>(of.layer(), [](std::string_view) { return true; });
  LayerTraining<float> training(of.layer(), Precision::kFp32, {});
  const auto error = [&] {
    return training.error(of.inputs.view(), of.targets.view(), of.sequences);
  };
  const double before = error();
  training.optimizer().keep_best();
  for (int i = 0; i < 60; ++i) {
    training.optimizer().clear_gradients();
    training.accumulate(of.inputs.view(), of.targets.view(), of.sequences, 1.0 / 14.0);
    EXPECT_TRUE(training.optimizer().update(0.01));
  }
  EXPECT_LT(error(), 0.5 * before);
  training.optimizer().restore_best();
  EXPECT_EQ(error(), before);
}

TEST(LayerTraining, TrainsOnlyWhatTheMaskNames) {
  Reconstruction of;
  train<float>(of.layer(), [](std::string_view name) { return name.ends_with("norm.weight"); });
  LayerTraining<float> training(of.layer(), Precision::kFp32, {});
  EXPECT_EQ(training.optimizer().trained_parameters(), 2 * of.config.hidden_size);
  training.accumulate(of.inputs.view(), of.targets.view(), of.sequences, 1.0);
  EXPECT_GT(training.optimizer().gradient_norm(), 0.0);
}

// A layer that has nothing to learn stays as it is.
TEST(LayerTraining, ALayerThatHitsItsTargetKeepsAnErrorOfZero) {
  Reconstruction of;
  train<float>(of.layer(), [](std::string_view) { return true; });
  LayerTraining<float> training(of.layer(), fastest_precision(), {});
  const Rows<float> targets =
      run_layer<float>(of.layer(), fastest_precision(), of.inputs.view(), of.sequences);
  EXPECT_EQ(training.accumulate(of.inputs.view(), targets.view(), of.sequences, 1.0), 0.0);
  EXPECT_EQ(training.optimizer().gradient_norm(), 0.0);
  training.optimizer().update(0.01);
  EXPECT_EQ(training.error(of.inputs.view(), targets.view(), of.sequences), 0.0);
}

}  // namespace
}  // namespace neuronmm::training
