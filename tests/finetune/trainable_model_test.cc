// Compares the torch forward pass with src/model and with published logits, and gradients with
// finite differences.

#include "finetune/trainable_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "factored_model.h"
#include "ops/reference.h"
#include "test_data.h"

namespace neuronmm::finetune {
namespace {

namespace fs = std::filesystem;
using io::Architecture;

// The logits of these models are at most about 10, and both sides sum in fp32 or better.
constexpr double kLogitTolerance = 1e-4;

void expect_near(const Matrix& found, const Matrix& expected) {
  ASSERT_EQ(found.rows(), expected.rows());
  ASSERT_EQ(found.columns(), expected.columns());
  for (int64_t i = 0; i < found.rows(); ++i) {
    for (int64_t j = 0; j < found.columns(); ++j)
      ASSERT_NEAR(found.row(i)[j], expected.row(i)[j], kLogitTolerance) << i << ", " << j;
  }
}

// Factors layer 0's gate exactly, W = I · W, so that the model has something to train.
void factor_exactly(const fs::path& from, const model::ModelFolder& to) {
  const auto checkpoint = io::Checkpoint::open(from);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const std::string stem = model::tensor_prefix(*checkpoint) + "layers.0.mlp.gate_";
  model::TestTensors tensors;
  for (const auto& [name, view] : checkpoint->tensors()) {
    model::TestTensor tensor = {view.dtype, view.shape, {}};
    tensor.values.resize(static_cast<size_t>(view.size()));
    to_floats(view, 0, view.size(), tensor.values.data());
    tensors[name] = std::move(tensor);
  }
  model::TestTensor weight = tensors.at(stem + "proj.weight");
  const int64_t columns = weight.shape[1];
  model::TestTensor identity = {weight.dtype, {columns, columns}, {}};
  identity.values.resize(static_cast<size_t>(columns * columns));
  for (int64_t i = 0; i < columns; ++i) identity.values[static_cast<size_t>(i * (columns + 1))] = 1;
  tensors.erase(stem + "proj.weight");
  tensors[stem + "v_proj.weight"] = std::move(identity);
  tensors[stem + "u_proj.weight"] = std::move(weight);
  to.write_tensors(tensors);
}

class Forward : public testing::Test {
 protected:
  void expect_same_as_model(const std::vector<text::TokenId>& tokens) {
    const TrainableModel trainable = load_or_throw({folder_.path(), {}});
    const auto transformer = model::Transformer::load(folder_.path(), *backend_);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    expect_near(trainable.logits(tokens), model::all_logits(*transformer, tokens));
  }

  std::unique_ptr<ops::Backend> backend_ = ops::make_reference_backend();
  model::ModelFolder folder_;
};

TEST_F(Forward, EveryArchitectureAgreesWithTheReference) {
  for (const Architecture architecture :
       {Architecture::kLlama, Architecture::kMistral, Architecture::kQwen2, Architecture::kQwen3,
        Architecture::kOlmo2, Architecture::kGemma2, Architecture::kGranite}) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(fmt::format("{} tied {}", io::architecture_name(architecture), tied));
      io::ModelConfig config = model::tiny_config(architecture);
      config.tie_word_embeddings = tied;
      write_model(folder_, config, factored_tensors(config, 11));
      expect_same_as_model(model::random_tokens(17, config.vocab_size, 5));
    }
  }
}

TEST_F(Forward, EveryFormAgreesWithTheReference) {
  const io::ModelConfig config = model::tiny_config(Architecture::kQwen3);
  for (const std::string form : {"pivoted", "narrow", "neurons", "mixed"}) {
    SCOPED_TRACE(form);
    write_model(folder_, config, compressed_model(config, form, 17));
    expect_same_as_model(model::random_tokens(17, config.vocab_size, 7));
  }
}

TEST_F(Forward, AddsAllBiases) {
  io::ModelConfig config = model::tiny_config(Architecture::kLlama);
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  write_model(folder_, config, factored_tensors(config, 12));
  expect_same_as_model(model::random_tokens(17, config.vocab_size, 5));
}

TEST_F(Forward, TurnsLongTextsByTheListForThem) {
  io::ModelConfig config = model::tiny_longrope_config();
  auto& longrope = std::get<io::LongRopeScaling>(config.ropes[0].scaling);
  longrope.long_factor = {2.0, 6.0, 20.0};
  longrope.original_max_position_embeddings = 9;
  write_model(folder_, config, factored_tensors(config, 13));
  for (const int64_t tokens : {9, 17, 5}) {
    expect_same_as_model(model::random_tokens(tokens, config.vocab_size, 6));
  }
}

TEST_F(Forward, LogitsAgreeWithHuggingFace) {
  NMM_TEST_DATA_OR_SKIP(data, "oracles/hf-tiny");
  for (const std::string name : {"tiny_llama", "tiny_qwen2", "tiny_smollm2", "tiny_mistral"}) {
    SCOPED_TRACE(name);
    const model::ModelFolder original, factored;
    original.copy_file(data / (name + ".safetensors"), "model.safetensors");
    factor_exactly(original.path(), factored);
    factored.copy_file(data / (name + "_config.json"), "config.json");
    const TrainableModel trainable = load_or_throw({factored.path(), {}});
    std::ifstream file(data / (name + "_logits.json"));
    const auto published = nlohmann::json::parse(file);
    for (size_t s = 0; s < published["sequences"].size(); ++s) {
      const std::vector<text::TokenId> tokens = published["sequences"][s];
      const std::vector<std::vector<double>> expected = published["logits"][s];
      const Matrix logits = trainable.logits(tokens);
      for (size_t i = 0; i < expected.size(); ++i) {
        for (size_t j = 0; j < expected[i].size(); ++j)
          ASSERT_NEAR(logits.row(static_cast<int64_t>(i))[j], expected[i][j], kLogitTolerance);
      }
    }
  }
}

TEST_F(Forward, AppliesTheAttentionFactorOfRope) {
  const io::ModelConfig config = model::tiny_longrope_config();
  write_model(folder_, config, factored_tensors(config, 13));
  expect_same_as_model(model::random_tokens(17, config.vocab_size, 6));
}

TEST_F(Forward, AppliesLlama3RopeScaling) {
  NMM_TEST_DATA_OR_SKIP(data, "oracles/paged-infer");
  std::ifstream file(data / "llama3_scaling_reference.json");
  const auto reference = nlohmann::json::parse(file);
  nlohmann::json config = reference["config"];
  config["architectures"] = {"LlamaForCausalLM"};
  config["model_type"] = "llama";
  const model::ModelFolder original;
  original.copy_file(data / "tiny_llama.safetensors", "model.safetensors");
  factor_exactly(original.path(), folder_);
  folder_.write_text("config.json", config.dump());
  expect_same_as_model(reference["tokens"]);
}

TEST_F(Forward, TheDemoModelAgreesWithTheReference) {
  const fs::path demo = source_dir() / "models/demo";
  factor_exactly(demo, folder_);
  folder_.copy_file(demo / "config.json", "config.json");
  expect_same_as_model(model::random_tokens(60, 2048, 3));
}

class Gradients : public testing::Test {
 protected:
  void SetUp() override {
    write_model(folder_, config_, factored_tensors(config_, 21));
    write_model(teacher_, config_, model::random_tensors(config_, 22));
    options_.model = folder_.path();
    options_.compute = DType::kF64;
  }
  // Moves the trained tensors to other values, because adapters begin with B = 0, where the
  // gradient of A is zero.
  static void perturb(TrainableModel& model, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (const std::string& name : trained(model)) {
      std::vector<float> values = model.read(name);
      for (float& value : values) value += random_values(1, random, 0.2f)[0];
      model.write(name, values.data());
    }
  }
  static std::vector<std::string> trained(const TrainableModel& model) {
    std::vector<std::string> names;
    const auto tensors = model.phase_tensors();
    for (size_t i = 0; i < tensors.size(); i += 3) names.push_back(tensors[i].name);
    return names;
  }
  double accumulate(TrainableModel& model) const {
    model.clear_gradients();
    return model.accumulate(pointers(examples_), 1.0);
  }
  void expect_finite_differences(TrainableModel& model, const std::string& name,
                                 const std::function<double()>& loss) const;
  void expect_finite_differences(TrainableModel& model, const std::string& name) const {
    expect_finite_differences(model, name, [&] { return model.loss_sum(pointers(examples_)); });
  }

  const io::ModelConfig config_ = model::tiny_config(Architecture::kQwen3);
  const std::vector<Example> examples_ = random_examples(4, config_.vocab_size, 8);
  const Recipe recipe_ = {};
  model::ModelFolder folder_, teacher_;
  ModelOptions options_;
};

// Compares along a random direction in fp64. The step is exactly the difference of the two fp32
// values.
void Gradients::expect_finite_differences(TrainableModel& model, const std::string& name,
                                          const std::function<double()>& loss) const {
  SCOPED_TRACE(name);
  constexpr double kStep = 0x1p-14;
  std::mt19937_64 random(31);
  const std::vector<float> at = model.read(name), gradient = model.read_gradient(name);
  const std::vector<float> direction = random_values(static_cast<int64_t>(at.size()), random);
  std::vector<float> before = at, after = at;
  double predicted = 0.0, scale = 0.0;
  for (size_t i = 0; i < at.size(); ++i) {
    before[i] -= static_cast<float>(kStep) * direction[i];
    after[i] += static_cast<float>(kStep) * direction[i];
    const double moved = static_cast<double>(after[i]) - static_cast<double>(before[i]);
    predicted += static_cast<double>(gradient[i]) * moved;
    scale += std::abs(static_cast<double>(gradient[i]) * moved);
  }
  model.write(name, before.data());
  const double loss_before = loss();
  model.write(name, after.data());
  const double loss_after = loss();
  model.write(name, at.data());
  EXPECT_GT(scale, 0.0);
  // The error of a central difference is of third order in the step, here 1e-8 of the loss.
  // Gradients are read as fp32.
  EXPECT_NEAR(loss_after - loss_before, predicted, 1e-5 * scale + 1e-9);
}

TEST_F(Gradients, AgreeWithFiniteDifferences) {
  for (const bool distilled : {false, true}) {
    for (const Part part : {Part::kU, Part::kV, Part::kBoth, Part::kFactors, Part::kAll}) {
      options_.all_matrices = part == Part::kAll;
      SCOPED_TRACE(fmt::format("{} {}", part_name(part), distilled ? "distilled" : "text"));
      options_.teacher = distilled ? teacher_.path() : fs::path();
      TrainableModel model = load_or_throw(options_);
      model.begin_phase(part, recipe_, 1);
      perturb(model, 2);
      const double loss = accumulate(model);
      EXPECT_NEAR(loss, model.loss_sum(pointers(examples_)), 1e-9 * loss);
      for (const std::string& name : trained(model)) expect_finite_differences(model, name);
    }
  }
}

// Norms of outputs, caps, GELU, a scaled residual stream and a norm over the whole width.
TEST_F(Gradients, OfOtherArchitecturesAgreeWithFiniteDifferences) {
  for (const Architecture architecture :
       {Architecture::kGemma2, Architecture::kOlmo2, Architecture::kGranite}) {
    SCOPED_TRACE(io::architecture_name(architecture));
    const io::ModelConfig config = model::tiny_config(architecture);
    write_model(folder_, config, factored_tensors(config, 29));
    options_.teacher = fs::path();
    TrainableModel model = load_or_throw(options_);
    model.begin_phase(Part::kBoth, recipe_, 1);
    perturb(model, 2);
    const double loss = accumulate(model);
    EXPECT_NEAR(loss, model.loss_sum(pointers(examples_)), 1e-9 * loss);
    for (const std::string& name : trained(model)) expect_finite_differences(model, name);
  }
}

TEST_F(Gradients, OfEveryFormAgreeWithFiniteDifferences) {
  for (const std::string form : {"pivoted", "narrow", "neurons", "mixed"}) {
    write_model(folder_, config_, compressed_model(config_, form, 23));
    for (const Part part : {Part::kU, Part::kV, Part::kBoth, Part::kFactors, Part::kAll}) {
      options_.all_matrices = part == Part::kAll;
      SCOPED_TRACE(fmt::format("{} {}", form, part_name(part)));
      TrainableModel model = load_or_throw(options_);
      model.begin_phase(part, recipe_, 1);
      perturb(model, 2);
      accumulate(model);
      EXPECT_FALSE(trained(model).empty());
      for (const std::string& name : trained(model)) expect_finite_differences(model, name);
    }
  }
}

// The expected names are those of layer 0, in the order of its products.
TEST_F(Gradients, EachPartTrainsItsMatricesOfEveryForm) {
  using Names = std::vector<std::string>;
  const auto trained_of = [&](const std::string& form, Part part) {
    write_model(folder_, config_, compressed_model(config_, form, 23));
    options_.all_matrices = part == Part::kAll;
    TrainableModel model = load_or_throw(options_);
    model.begin_phase(part, recipe_, 1);
    const std::string prefix = "model.layers.0.mlp.", ending = "_proj.weight";
    Names names;
    for (std::string name : trained(model)) {
      if (!name.starts_with(prefix)) continue;
      if (name.ends_with("lora_b")) continue;
      name = name.substr(prefix.size());
      names.push_back(name.substr(0, name.find(ending)));
    }
    return names;
  };
  EXPECT_EQ(trained_of("pivoted", Part::kU), (Names{"gate_pivot", "up_pivot", "down"}));
  EXPECT_EQ(trained_of("pivoted", Part::kV), (Names{"gate", "up", "down_pivot"}));
  EXPECT_EQ(trained_of("narrow", Part::kU), (Names{"input_pivot", "down"}));
  EXPECT_EQ(trained_of("narrow", Part::kV), (Names{"gate", "up", "down_pivot"}));
  EXPECT_EQ(trained_of("neurons", Part::kU), (Names{"gate", "up"}));
  EXPECT_EQ(trained_of("neurons", Part::kV), (Names{"down"}));
  EXPECT_EQ(trained_of("mixed", Part::kFactors),
            (Names{"input_pivot", "gate", "up", "down", "down_pivot"}));
}

// Every matrix of a layer must be trained once, including attention and matrices that compression
// left dense.
TEST_F(Gradients, AllTrainsEveryMatrixOfALayerOnce) {
  options_.all_matrices = true;
  for (const std::string form : {"pivoted", "narrow", "neurons", "mixed"}) {
    write_model(folder_, config_, compressed_model(config_, form, 23));
    TrainableModel model = load_or_throw(options_);
    model.begin_phase(Part::kAll, recipe_, 1);
    std::vector<std::string> expected;
    for (const auto& [name, tensor] : model.checkpoint().tensors()) {
      if (name.find("layers.") != std::string::npos && name.ends_with("_proj.weight")) {
        expected.push_back(name);
      }
    }
    std::vector<std::string> found = trained(model);
    std::ranges::sort(found);
    EXPECT_EQ(found, expected) << form;
  }
}

// Compares products in bf16 with fp64. Each of the two layers causes at most about 20 roundings on
// the forward pass and as many on the backward pass. Roundings have a relative size of 2^-9 and are
// independent. If nothing amplifies them, the relative error is the square root of their number
// times 2^-9. A factor of 4 is left for normalization and softmax.
TEST_F(Gradients, InBf16AgreeWithFp64) {
  const double bound = 4 * std::sqrt(80.0) * 0x1p-9;
  options_.teacher = teacher_.path();
  for (const std::string form : {"pivoted", "narrow", "neurons", "mixed"}) {
    write_model(folder_, config_, compressed_model(config_, form, 23));
    options_.compute = DType::kF64;
    TrainableModel exact = load_or_throw(options_);
    options_.compute = DType::kBF16;
    TrainableModel rounded = load_or_throw(options_);
    for (TrainableModel* const model : {&exact, &rounded}) {
      model->begin_phase(Part::kFactors, recipe_, 1);
    }
    const double loss = accumulate(exact), rounded_loss = accumulate(rounded);
    EXPECT_NEAR(rounded_loss, rounded.loss_sum(pointers(examples_)), 1e-4 * loss);
    EXPECT_NEAR(rounded_loss, loss, bound * loss);
    for (const std::string& name : trained(exact)) {
      const std::vector<float> a = exact.read_gradient(name), b = rounded.read_gradient(name);
      double error = 0.0, norm = 0.0;
      for (size_t i = 0; i < a.size(); ++i) {
        error += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        norm += std::pow(static_cast<double>(a[i]), 2);
      }
      EXPECT_LT(std::sqrt(error / norm), bound) << form << " " << name;
      EXPECT_GT(std::sqrt(error / norm), 0x1p-12) << "nothing was rounded: " << form << " " << name;
    }
  }
}

// Activations that are computed again instead of kept must be the same.
TEST_F(Gradients, DoNotDependOnSegmentsOrMicroBatches) {
  TrainableModel whole = load_or_throw(options_);
  options_.activation_bytes = 1;
  TrainableModel segments = load_or_throw(options_);
  for (TrainableModel* const model : {&whole, &segments}) {
    model->begin_phase(Part::kBoth, recipe_, 1);
    perturb(*model, 2);
  }
  accumulate(whole);
  double loss = 0.0;
  for (const Example& example : examples_) {
    const std::vector<const Example*> single = {&example};
    loss += segments.accumulate(single, 1.0);
  }
  EXPECT_NEAR(loss, whole.loss_sum(pointers(examples_)), 1e-9 * loss);
  for (const std::string& name : trained(whole)) {
    const std::vector<float> a = whole.read_gradient(name), b = segments.read_gradient(name);
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-6f * (1.0f + std::abs(a[i]))) << name;
  }
}

TEST_F(Gradients, LossesAgreeWithThoseComputedFromTheLogits) {
  TrainableModel model = load_or_throw(options_);
  double expected = 0.0;
  for (const Example& example : examples_) {
    const Matrix logits = model.logits(example.tokens);
    for (int64_t t = example.scored_from; t < example.length(); ++t) {
      const float* const row = logits.row(t - 1);
      double total = 0.0;
      for (int64_t j = 0; j < logits.columns(); ++j) total += std::exp(static_cast<double>(row[j]));
      expected +=
          std::log(total) - static_cast<double>(row[example.tokens[static_cast<size_t>(t)]]);
    }
  }
  EXPECT_NEAR(model.loss_sum(pointers(examples_)), expected, 1e-5 * expected);
  // A model does not differ from itself.
  options_.teacher = folder_.path();
  EXPECT_NEAR(load_or_throw(options_).loss_sum(pointers(examples_)), 0.0, 1e-9);
}

TEST_F(Gradients, MergingAdaptersChangesNothing) {
  TrainableModel model = load_or_throw(options_);
  const std::vector<text::TokenId> tokens = model::random_tokens(12, config_.vocab_size, 4);
  const Matrix untrained = model.logits(tokens);
  model.begin_phase(Part::kBoth, recipe_, 1);
  expect_near(model.logits(tokens), untrained);
  perturb(model, 2);
  const Matrix trained = model.logits(tokens);
  model.end_phase();
  expect_near(model.logits(tokens), trained);
  EXPECT_EQ(model.trainable_parameters(), 0);
  double change = 0.0;
  for (int64_t j = 0; j < trained.columns(); ++j)
    change =
        std::max(change, std::abs(static_cast<double>(trained.row(3)[j] - untrained.row(3)[j])));
  EXPECT_GT(change, 0.01);
}

TEST_F(Gradients, AdaptersDependOnTheSeedOnly) {
  const auto first_adapter = [&](uint64_t seed) {
    TrainableModel model = load_or_throw(options_);
    model.begin_phase(Part::kU, recipe_, seed);
    return model.read("model.layers.0.mlp.gate_v_proj.weight.lora_a");
  };
  const std::vector<float> adapter = first_adapter(7);
  EXPECT_EQ(adapter, first_adapter(7));
  EXPECT_NE(adapter, first_adapter(8));
  const float bound = 1.0f / std::sqrt(16.0f);
  EXPECT_LE(*std::ranges::max_element(adapter), bound);
  EXPECT_GT(*std::ranges::max_element(adapter), 0.9f * bound);
  EXPECT_LT(*std::ranges::min_element(adapter), -0.9f * bound);
}

TEST_F(Gradients, TheBestStateCanBeRestored) {
  TrainableModel model = load_or_throw(options_);
  model.begin_phase(Part::kFactors, recipe_, 1);
  perturb(model, 2);
  const std::vector<std::string> names = trained(model);
  std::vector<std::vector<float>> best;
  for (const std::string& name : names) best.push_back(model.read(name));
  model.keep_best();
  EXPECT_EQ(model.phase_tensors().size(), 4 * names.size());
  for (const std::string& name : names) {
    model.write(name, std::vector<float>(model.read(name).size(), 1.0f).data());
  }
  model.restore_best();
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(model.read(names[i]), best[i]);
    EXPECT_EQ(model.read(names[i] + ".best"), best[i]);
  }
}

class Rounded : public Gradients {
 protected:
  void SetUp() override {
    Gradients::SetUp();
    options_.compute = DType::kF32;
    options_.rounding = io::Quantization{};
  }
};

// The gradient must be that of the loss at the rounded weights, as for a model that has the rounded
// weights as its own. Both gradients would be equal without the rounding of activations. With it
// they must point in nearly the same direction. The trained value must be the unrounded one.
TEST_F(Rounded, GradientsPassStraightThroughTheRounding) {
  // With 8 bits, 1 % of the size of weights and activations is rounded away at about 20 places. The
  // angle is then the square root of 20 times as large. With 4 bits, 9 % is rounded away at the
  // half of the places that are weights. Rows of a few values lose as much again.
  const std::pair<LowBitFormat, double> formats[] = {{{8}, 0.98}, {{4, 16}, 0.8}};
  for (const std::string form : {"pivoted", "narrow", "neurons", "mixed"}) {
    for (const auto& [format, cosine] : formats) {
      SCOPED_TRACE(fmt::format("{} {}", form, io::format_text(format)));
      write_model(folder_, config_, compressed_model(config_, form, 23));
      options_.rounding = io::Quantization{format};
      TrainableModel rounded = load_or_throw(options_);
      options_.rounding = {};
      TrainableModel plain = load_or_throw(options_);
      for (TrainableModel* const model : {&rounded, &plain}) {
        model->begin_phase(Part::kFactors, recipe_, 1);
        accumulate(*model);
      }
      for (const std::string& name : trained(plain)) {
        EXPECT_EQ(rounded.read(name), plain.read(name));
        const std::vector<float> a = plain.read_gradient(name), b = rounded.read_gradient(name);
        EXPECT_NE(a, b);
        double product = 0.0, squares_a = 0.0, squares_b = 0.0;
        for (size_t i = 0; i < a.size(); ++i) {
          product += static_cast<double>(a[i]) * static_cast<double>(b[i]);
          squares_a += static_cast<double>(a[i]) * static_cast<double>(a[i]);
          squares_b += static_cast<double>(b[i]) * static_cast<double>(b[i]);
        }
        EXPECT_GT(product / std::sqrt(squares_a * squares_b), cosine) << name;
      }
    }
  }
}

// Steps that are smaller than a rounding step must not be lost.
TEST_F(Rounded, SmallUpdatesAddUpInTheUnroundedWeights) {
  options_.teacher = teacher_.path();
  TrainableModel model = load_or_throw(options_);
  model.begin_phase(Part::kFactors, recipe_, 1);
  const std::string name = trained(model).front();
  const std::vector<float> before = model.read(name);
  const double loss = accumulate(model);
  for (int64_t step = 1; step <= 40; ++step) {
    model.update(1e-3, step);
    accumulate(model);
  }
  EXPECT_NE(model.read(name), before);
  EXPECT_LT(model.loss_sum(pointers(examples_)), 0.9 * loss);
}

class Blocks : public Gradients {
 protected:
  void SetUp() override {
    Gradients::SetUp();
    options_.teacher = teacher_.path();
  }
  int64_t count() const { return static_cast<int64_t>(examples_.size()); }
};

// The test looks at the second layer, after a first layer that is not the teacher's.
TEST_F(Blocks, GradientsAgreeWithFiniteDifferences) {
  TrainableModel model = load_or_throw(options_);
  ASSERT_TRUE(model.open_blocks(pointers(examples_)).ok());
  model.begin_block();
  model.end_block();
  model.begin_block();
  const double error = model.accumulate_block(0, count(), 1.0);
  EXPECT_NEAR(error, model.block_error(0, count()), 1e-9 * error);
  const double first = model.block_error(0, 1);
  EXPECT_NEAR(error, first + model.block_error(1, count() - 1), 1e-9 * error);
  const auto tensors = model.phase_tensors();
  ASSERT_FALSE(tensors.empty());
  for (size_t i = 0; i < tensors.size(); i += 3) {
    EXPECT_TRUE(tensors[i].name.starts_with("model.layers.1."));
    expect_finite_differences(model, tensors[i].name,
                              [&] { return model.block_error(0, count()); });
  }
}

// A model that is its own teacher must have no error. A model whose first layer differs must have
// an error from that layer on.
TEST_F(Blocks, ErrorsComeFromTheLayerThatDiffers) {
  options_.model = teacher_.path();
  model::TestTensors tensors = model::random_tensors(config_, 22);
  const CompressedModel other = compressed_model(config_, "neurons", 33);
  io::CompressionRecord record = other.record;
  record.ranks[1].neurons = 0;
  record.form = "mixed";
  for (const auto& [name, tensor] : other.tensors) {
    if (name.starts_with("model.layers.0.mlp.")) tensors[name] = tensor;
  }
  write_model(folder_, config_, CompressedModel{record, tensors});
  options_.model = folder_.path();
  TrainableModel model = load_or_throw(options_);
  ASSERT_TRUE(model.open_blocks(pointers(examples_)).ok());
  model.begin_block();
  EXPECT_EQ(model.trainable_parameters(), 3 * 13 * 16);
  EXPECT_GT(model.block_error(0, count()), 0.01);
  model.end_block();
  model.begin_block();
  EXPECT_EQ(model.trainable_parameters(), 0);
  EXPECT_GT(model.block_error(0, count()), 0.01);

  options_.teacher = folder_.path();
  TrainableModel same = load_or_throw(options_);
  ASSERT_TRUE(same.open_blocks(pointers(examples_)).ok());
  same.begin_block();
  EXPECT_NEAR(same.block_error(0, count()), 0.0, 1e-20);
}

}  // namespace
}  // namespace neuronmm::finetune
