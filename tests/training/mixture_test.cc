// Tests mixtures of experts: their choice, the weights of the chosen experts, and invariants of
// their gradients. Whole models are compared with PyTorch in golden_gradients_test.cc.

#include "ops/mixture.h"

#include <cmath>

#include <gtest/gtest.h>

#include "finite_differences.h"
#include "ops/reference.h"
#include "training/mixture.h"
#include "training/model_training.h"
#include "training/output_gradients.h"

namespace neuronmm::training {
namespace {

constexpr int64_t kFeatures = 6, kNeurons = 5, kRouted = 9, kExperts = 4;

void set_expert(Mlp<double>& mlp, const std::string& name) {
  mlp.gate.w.set(name + "gate", drawn_rows<double>(name + "gate", kNeurons, kFeatures));
  mlp.up.w.set(name + "up", drawn_rows<double>(name + "up", kNeurons, kFeatures));
  mlp.down.w.set(name + "down", drawn_rows<double>(name + "down", kFeatures, kNeurons));
  mlp.down.bias.set(name + "bias", drawn_rows<double>(name + "bias", 1, kFeatures));
}

constexpr int64_t kRead = 4, kWritten = 3;  // the ranks of the shared bases

// Makes the experts share bases.
void add_bases(Mixture<double>& mixture) {
  mixture.input.w.set("input", drawn_rows<double>("input", kRead, kFeatures));
  mixture.output.w.set("output", drawn_rows<double>("output", kFeatures, kWritten));
  for (size_t e = 0; e < mixture.experts.size(); ++e) {
    Mlp<double>& expert = mixture.experts[e];
    const std::string name = "narrow" + std::to_string(e);
    expert.gate.w.set(name + "gate", drawn_rows<double>(name + "gate", kNeurons, kRead));
    expert.up.w.set(name + "up", drawn_rows<double>(name + "up", kNeurons, kRead));
    expert.down.w.set(name + "down", drawn_rows<double>(name + "down", kWritten, kNeurons));
    expert.down.bias.set(name + "bias", drawn_rows<double>(name + "bias", 1, kWritten));
  }
}

void set_mixture(Mixture<double>& mixture, int64_t active, bool divided, bool equal = false) {
  mixture.router.w.set("router", drawn_rows<double>("router", kExperts, kFeatures));
  mixture.router.w.exact = true;
  mixture.active = active;
  mixture.divided = divided;
  for (int64_t e = 0; e < kExperts; ++e) {
    set_expert(mixture.experts.emplace_back(), equal ? "expert" : "expert" + std::to_string(e));
  }
}

TEST(Mixtures, GradientsAgreeWithDifferences) {
  for (const bool divided : {true, false}) {
    for (const int64_t active : {1, 2, 4}) {
      SCOPED_TRACE(active);
      Mixture<double> mixture;
      set_mixture(mixture, active, divided);
      Differences differences([&](Tape<double>& tape, const std::vector<Value64>& in) {
        return mixture.run(tape, in[0], {});
      });
      differences.add_input(kRouted, kFeatures);
      for_each_parameter(
          mixture, [&](Parameter<double>& parameter) { differences.add_parameter(parameter); });
      differences.compare_entries();
    }
  }
}

TEST(Mixtures, GradientsOfSharedBasesAgreeWithDifferences) {
  Mixture<double> mixture;
  set_mixture(mixture, 2, true);
  add_bases(mixture);
  Differences differences([&](Tape<double>& tape, const std::vector<Value64>& in) {
    return mixture.run(tape, in[0], {});
  });
  differences.add_input(kRouted, kFeatures);
  for_each_parameter(mixture,
                     [&](Parameter<double>& parameter) { differences.add_parameter(parameter); });
  differences.compare_entries();
}

// Returns the mean of −log p over the tokens of a sequence, by inference in fp32.
double loss_by_inference(const io::ModelConfig& config, const model::TestTensors& tensors,
                         const TokenSequence& tokens) {
  const model::ModelFolder folder;
  write_drawn_model(folder, config, tensors);
  const auto backend = ops::make_reference_backend();
  const auto transformer = model::Transformer::load(folder.path(), *backend);
  if (!transformer.ok()) throw std::runtime_error(transformer.error().message);
  const Matrix logits = model::all_logits(*transformer, tokens);
  double loss = 0.0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const float* const row = logits.row(static_cast<int64_t>(i));
    double sum = 0.0;
    for (int64_t j = 0; j < config.vocab_size; ++j) sum += std::exp(static_cast<double>(row[j]));
    loss += std::log(sum) - static_cast<double>(row[tokens[i + 1]]);
  }
  return loss / static_cast<double>(tokens.size() - 1);
}

TEST(Mixtures, OfEveryFormComputeWhatInferenceComputes) {
  for (const std::string name :
       {"mixtral", "qwen3_moe.neurons", "olmoe.basis", "granite_moe.mixed", "gpt_oss.mixed"}) {
    SCOPED_TRACE(name);
    const io::ModelConfig config = drawn_config(name);
    const model::TestTensors tensors = drawn_tensors(config);
    const auto model = open_drawn_model<double>(config, tensors);
    ModelTraining<double> training(*model, nullptr, 0);
    const TrainingBatch batch = {drawn_sequences({30}, config.vocab_size)};
    EXPECT_NEAR(training.loss(batch) / static_cast<double>(batch.scored_tokens()),
                loss_by_inference(config, tensors, batch.sequences[0]), 1e-5);
    int64_t bases = 0;
    model->for_each_parameter([&](const Parameter<double>& parameter) {
      bases += parameter.name.find("_basis_proj") != std::string::npos ? 1 : 0;
      EXPECT_TRUE(tensors.contains(parameter.name)) << parameter.name;
    });
    EXPECT_EQ(bases, name.ends_with(".basis") || name.ends_with(".mixed") ? 3 : 0);
  }
}

// The choice and the weights are those of inference.
TEST(Mixtures, RoutesAsInference) {
  const Rows<double> logits = drawn_rows<double>("logits", kRouted, 11);
  Matrix rounded(kRouted, 11);
  for (int64_t i = 0; i < logits.size(); ++i) {
    rounded.data()[i] = static_cast<float>(logits.data()[i]);
  }
  for (const bool divided : {true, false}) {
    std::vector<ops::RoutedExpert> expected(3 * kRouted);
    ops::route(rounded.view(), 3, divided, expected);
    Tape<double> silent(Precision::kFp32, false);
    const Routing routing = routing_of<double>(logits.view(), 3);
    const Value64 weights =
        expert_weights(silent, make_tensor(copy_of<double>(logits.view())), routing, divided);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(routing.experts[i], expected[i].expert);
      EXPECT_NEAR(weights->data.data()[i], expected[i].weight, 1e-6);
    }
  }
}

// Equal experts are one MLP, whatever the router says, and the router learns nothing.
TEST(Mixtures, EqualExpertsAreOneMlp) {
  Mixture<double> mixture;
  set_mixture(mixture, 2, true, true);
  Mlp<double> one;
  set_expert(one, "expert");
  for_each_parameter(mixture, [](Parameter<double>& parameter) { parameter.train(); });
  for_each_parameter(one, [](Parameter<double>& parameter) { parameter.train(); });
  const auto run = [](auto& mlp) {
    Tape<double> tape(Precision::kFp32);
    const Value64 x = make_tensor(drawn_rows<double>("x", kRouted, kFeatures), true);
    const Value64 y = mlp.run(tape, x, {});
    y->gradient = drawn_rows<double>("dy", kRouted, kFeatures);
    tape.read_backwards();
    return std::pair(x, y);
  };
  const auto [x, y] = run(mixture);
  const auto [x_of_one, y_of_one] = run(one);
  for (int64_t i = 0; i < kRouted * kFeatures; ++i) {
    EXPECT_NEAR(y->data.data()[i], y_of_one->data.data()[i], 1e-14);
    EXPECT_NEAR(x->gradient.data()[i], x_of_one->gradient.data()[i], 1e-13);
  }
  for (int64_t i = 0; i < kNeurons * kFeatures; ++i) {
    double sum = 0.0;
    for (const Mlp<double>& expert : mixture.experts) sum += expert.up.w.gradient.data()[i];
    EXPECT_NEAR(sum, one.up.w.gradient.data()[i], 1e-13);
  }
  for (int64_t i = 0; i < kExperts * kFeatures; ++i) {
    EXPECT_NEAR(mixture.router.w.gradient.data()[i], 0.0, 1e-14);
  }
}

// A softmax does not change if all of its logits grow alike.
TEST(Mixtures, GradientsOfTheLogitsOfATokenAddUpToZero) {
  for (const bool divided : {true, false}) {
    Tape<double> tape(Precision::kFp32);
    const Value64 logits = make_tensor(drawn_rows<double>("logits", kRouted, 7), true);
    const Routing routing = routing_of<double>(logits->view(), 3);
    const Value64 weights = expert_weights(tape, logits, routing, divided);
    weights->gradient = drawn_rows<double>("dw", kRouted, 3);
    tape.read_backwards();
    for (int64_t i = 0; i < kRouted; ++i) {
      double sum = 0.0;
      for (int64_t e = 0; e < 7; ++e) sum += logits->gradient.row(i)[e];
      EXPECT_NEAR(sum, 0.0, 1e-15);
    }
  }
}

// Products in bf16 leave the choice of experts as it is.
TEST(Mixtures, TheRouterIsNotRounded) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Parameter<float> router;
    router.set("router", drawn_rows<float>("router", kExperts, kFeatures));
    router.exact = true;
    router.train();
    Tape<float> tape(precision);
    const Tensor<float> x = make_tensor(drawn_rows<float>("x", kRouted, kFeatures), true);
    x->left(precision);  // other products of x
    const Tensor<float> y = product(tape, x, router);
    y->gradient = drawn_rows<float>("dy", kRouted, kExperts);
    tape.read_backwards();
    for (int64_t i = 0; i < kRouted; ++i) {
      for (int64_t e = 0; e < kExperts; ++e) {
        double sum = 0.0;
        for (int64_t j = 0; j < kFeatures; ++j) {
          sum += static_cast<double>(x->data.row(i)[j]) * router.value.row(e)[j];
        }
        EXPECT_NEAR(y->data.row(i)[e], sum, 1e-6);
      }
      for (int64_t j = 0; j < kFeatures; ++j) {
        double sum = 0.0;
        for (int64_t e = 0; e < kExperts; ++e) {
          sum += drawn("dy", i * kExperts + e) * static_cast<double>(router.value.row(e)[j]);
        }
        EXPECT_NEAR(x->gradient.row(i)[j], sum, 1e-6);
      }
    }
  }
}

TEST(Mixtures, TheObserverSeesTheGradientOfTheSum) {
  Mixture<double> mixture;
  set_mixture(mixture, 2, true);
  Tape<double> tape(Precision::kFp32);
  const Value64 x = make_tensor(drawn_rows<double>("x", kRouted, kFeatures), true);
  int64_t calls = 0;
  const Value64 y = mixture.run(tape, x, [&](const MlpGradients<double>& of) {
    ++calls;
    EXPECT_EQ(of.gate.rows, 0);
    EXPECT_EQ(of.up.rows, 0);
    ASSERT_EQ(of.down.rows, kRouted);
    for (int64_t i = 0; i < kRouted * kFeatures; ++i) EXPECT_EQ(of.down.data[i], drawn("dy", i));
  });
  y->gradient = drawn_rows<double>("dy", kRouted, kFeatures);
  tape.read_backwards();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace neuronmm::training
