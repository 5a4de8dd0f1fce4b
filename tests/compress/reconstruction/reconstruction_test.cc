// Tests layer reconstruction on tiny random models: what layers learn, and that neither the number
// of threads nor an end at any layer changes a bit.

#include "compress/reconstruction/reconstruction.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <span>

#include <gtest/gtest.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "compress/reconstruction/hidden_states.h"
#include "eval/watched_backend.h"
#include "io/model_folder.h"
#include "io/safetensors.h"
#include "model/tiny_model.h"
#include "training/drawn_model.h"
#include "training/layer_training.h"

namespace neuronmm::compress {
namespace {

namespace fs = std::filesystem;
using model::TestTensors;

constexpr ReconstructionPlan kPlan = {.tokens = 1 << 20, .passes = 3, .reason = {}};

// A dense model, a compressed one, a text and a work folder.
class LayersLearn : public testing::Test {
 protected:
  void TearDown() override {
    set_interrupted(false);
    set_num_threads(threads_);
  }

  // `form` is a case of drawn_config(): a family, whose MLPs stay dense, or a form.
  void use(const std::string& form) {
    compressed_config_ = training::drawn_config(form);
    dense_config_ = compressed_config_;
    dense_config_.compression.reset();
    if (dense_config_.experts)
      dense_config_ = training::drawn_config(form.substr(0, form.find('.')));
    dense_tensors_ = training::drawn_tensors(dense_config_);
    compressed_tensors_ = training::drawn_tensors(compressed_config_, "other.");
    // Everything except the layers is the same in both models.
    for (auto& [name, tensor] : compressed_tensors_) {
      const auto dense = dense_tensors_.find(name);
      if (dense == dense_tensors_.end()) continue;
      const bool in_mlp = name.find(".mlp.") != std::string::npos && !training::is_of_router(name);
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        const float other = tensor.values[i];
        tensor.values[i] = dense->second.values[i];
        if (in_mlp) tensor.values[i] += 0.2f * (other - tensor.values[i]);
      }
    }
    write();
  }
  void write() {
    training::write_drawn_model(dense_, dense_config_, dense_tensors_);
    training::write_drawn_model(compressed_, compressed_config_, compressed_tensors_);
    text_.sequences =
        training::drawn_sequences({40, 40, 40, 40, 40, 40, 40, 40}, dense_config_.vocab_size);
    text_.held_out = training::drawn_sequences({30, 33, 30}, dense_config_.vocab_size - 1);
    text_.has_held_out = true;
  }

  Result<ReconstructionSummary> run(const std::string& work,
                                    const ReconstructionPlan& plan = kPlan) {
    fs::create_directories(folder(work));
    auto opened = io::open_model(dense_.path());
    if (!opened.ok()) return opened.error();
    Progress silent;
    const CompressionInputs inputs = {opened->checkpoint, opened->config, backend_, &text_, silent};
    return reconstruct(inputs, compressed_.path(), plan, folder(work));
  }
  ReconstructionSummary run_well(const std::string& work, const ReconstructionPlan& plan = kPlan) {
    auto summary = run(work, plan);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return std::move(summary).value();
  }
  // Returns the weights that result.
  std::string result(const std::string& work) {
    Progress silent;
    const Status written =
        write_reconstructed_model(compressed_.path(), folder(work), folder(work), silent);
    EXPECT_TRUE(written.ok()) << (written.ok() ? "" : written.error().message);
    return bytes(folder(work) / "model.safetensors");
  }
  // Compares the tensors of two files of bytes, and not their metadata.
  static bool same_tensors(const std::string& a, const std::string& b) {
    const auto one = io::SafetensorsFile::parse(std::as_bytes(std::span(a)), "a").value();
    const auto other = io::SafetensorsFile::parse(std::as_bytes(std::span(b)), "b").value();
    return std::ranges::equal(one.tensors(), other.tensors(), [](const auto& x, const auto& y) {
      return x.first == y.first && x.second.shape == y.second.shape &&
             x.second.dtype == y.second.dtype &&
             std::equal(x.second.data, x.second.data + x.second.size_bytes(), y.second.data);
    });
  }
  fs::path folder(const std::string& work) const { return works_.path() / work; }
  static std::string bytes(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const int threads_ = num_threads();
  io::ModelConfig dense_config_, compressed_config_;
  TestTensors dense_tensors_, compressed_tensors_;
  model::ModelFolder dense_, compressed_, works_;
  CalibrationSequences text_;
  eval::WatchedBackend backend_;
};

// Returns the mean relative error of the last layer's output over the sequences, in fp64.
double last_error(training::Model<double>& dense, training::Model<double>& changed,
                  const std::vector<training::TokenSequence>& sequences) {
  const auto lengths = training::lengths_of(sequences);
  const auto outputs = [&](training::Model<double>& model) {
    training::Tape<double> silent(training::Precision::kFp32, false);
    training::Tensor<double> x = model.embed(silent, sequences);
    for (int64_t i = 0; i < model.num_layers(); ++i) x = model.layer(i).run(silent, x, lengths);
    return x;
  };
  const auto y = outputs(changed), target = outputs(dense);
  return training::layer_loss<double>(y->view(), target->view(), {}, training::Precision::kFp32,
                                      1.0, nullptr) /
         static_cast<double>(lengths.tokens());
}

class EveryLayerLearns : public LayersLearn, public testing::WithParamInterface<const char*> {};

TEST_P(EveryLayerLearns, AndTheErrorsAreThoseOfTheResult) {
  use(GetParam());
  const ReconstructionSummary summary = run_well("work");
  ASSERT_EQ(std::ssize(summary.layers), dense_config_.num_hidden_layers);
  EXPECT_EQ(summary.tokens, 320);
  EXPECT_EQ(summary.held_out_tokens, 93);
  EXPECT_EQ(summary.skipped(), 0);
  for (const LayerOutcome& layer : summary.layers) {
    EXPECT_GT(layer.before, 0.0);
    EXPECT_LE(layer.after, layer.before);
  }
  EXPECT_LT(summary.mean_after(), summary.mean_before());
  result("work");
  fs::copy_file(compressed_.path() / "config.json", folder("work") / "config.json");
  using training::Model, training::Precision;
  auto dense = Model<double>::open(dense_.path(), Precision::kFp32).value();
  auto before = Model<double>::open(compressed_.path(), Precision::kFp32).value();
  auto after = Model<double>::open(folder("work"), Precision::kFp32).value();
  const double error = last_error(*dense, *after, text_.held_out);
  EXPECT_LT(error, last_error(*dense, *before, text_.held_out));
  // Products in bf16 differ from those in fp64.
  EXPECT_NEAR(error, summary.layers.back().after, 0.03 * error + 1e-4);
}

INSTANTIATE_TEST_SUITE_P(FamiliesAndForms, EveryLayerLearns,
                         testing::Values("llama", "mistral", "qwen2", "qwen3", "olmo2", "gemma2",
                                         "granite", "biases", "uv", "pivoted", "narrow", "neurons",
                                         "mixed", "mixtral", "gpt_oss.neurons", "qwen3_moe.neurons",
                                         "mixtral.basis", "olmoe.mixed", "granite_moe.experts",
                                         "gpt_oss.mixed"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// All tensors of a layer with sinks learn, and all of a mixture except the router.
TEST_F(LayersLearn, EverythingExceptTheRouter) {
  use("gpt_oss.basis");
  run_well("work");
  result("work");
  const auto before = io::Checkpoint::open(compressed_.path()).value();
  const auto after = io::Checkpoint::open(folder("work")).value();
  int64_t routers = 0, sinks = 0;
  for (const auto& [name, tensor] : before.tensors()) {
    const TensorView& other = after.tensors().at(name);
    ASSERT_EQ(other.shape, tensor.shape) << name;
    const bool same = std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data);
    const bool router = training::is_of_router(name);
    EXPECT_EQ(same, router || name.find("layers.") == std::string::npos) << name;
    routers += router ? 1 : 0;
    sinks += name.ends_with(".sinks") ? 1 : 0;
  }
  EXPECT_EQ(routers, 4);  // weights and biases
  EXPECT_EQ(sinks, 2);
}

// Nothing is compressed before the last layer, so earlier layers have no error.
TEST_F(LayersLearn, LayersWithoutAnErrorStayAsTheyAre) {
  use("llama");
  for (auto& [name, tensor] : compressed_tensors_) {
    if (!name.starts_with("model.layers.1.")) tensor = dense_tensors_.at(name);
  }
  write();
  const ReconstructionSummary summary = run_well("work");
  EXPECT_EQ(summary.layers[0].before, 0.0);
  EXPECT_EQ(summary.layers[0].after, 0.0);
  EXPECT_EQ(summary.layers[0].passes, 0);
  EXPECT_LT(summary.layers[1].after, summary.layers[1].before);
  EXPECT_EQ(summary.mean_after(), summary.layers[1].after);

  compressed_tensors_ = dense_tensors_;
  write();
  EXPECT_EQ(run_well("same").mean_before(), 0.0);
  EXPECT_TRUE(same_tensors(result("same"), bytes(compressed_.path() / "model.safetensors")));
}

TEST_F(LayersLearn, ThreadsChangeNothing) {
  for (const std::string form : {"mixed", "gpt_oss.mixed"}) {
    use(form);
    std::string first;
    for (const int threads : {1, 2, 3, 5}) {
      set_num_threads(threads);
      const std::string work = form + std::to_string(threads);
      run_well(work);
      if (first.empty()) first = result(work);
      EXPECT_TRUE(result(work) == first) << form << ", " << threads << " threads";
    }
  }
}

TEST_F(LayersLearn, ARunThatEndedAtAnyLayerGoesOnToTheSameBits) {
  use("narrow");
  const ReconstructionSummary whole = run_well("whole");
  const std::string expected = result("whole");
  const int64_t layers = dense_config_.num_hidden_layers;
  for (int64_t kept = 0; kept <= layers; ++kept) {
    const std::string work = "kept" + std::to_string(kept);
    fs::create_directories(folder(work));
    for (int64_t i = 0; i < kept; ++i) {
      fs::copy_file(reconstructed_path(folder("whole"), i), reconstructed_path(folder(work), i));
    }
    if (kept < layers) {  // a damaged file is made anew
      std::ofstream(reconstructed_path(folder(work), kept)) << "damaged";
    }
    const ReconstructionSummary summary = run_well(work);
    EXPECT_TRUE(result(work) == expected) << kept;
    for (size_t i = 0; i < whole.layers.size(); ++i) {
      EXPECT_EQ(summary.layers[i].after, whole.layers[i].after);
    }
  }
}

TEST_F(LayersLearn, AnInterruptSaysHowManyLayersAreDone) {
  use("llama");
  set_interrupted(true);
  const auto stopped = run("work");
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
  EXPECT_NE(stopped.error().message.find("0 of 2 layers are reconstructed"), std::string::npos)
      << stopped.error().message;
}

// The embedding of token 18 is NaN. It is in the text to learn from alone, which makes four steps.
class TokensWithoutAValue : public LayersLearn {
 protected:
  void SetUp() override {
    use("llama");
    for (TestTensors* const tensors : {&dense_tensors_, &compressed_tensors_}) {
      tensors->at("model.embed_tokens.weight").values.back() =
          std::numeric_limits<float>::quiet_NaN();
    }
    write();
    text_.sequences = training::drawn_sequences(std::vector<int64_t>(200, 40), 18);
  }
};

TEST_F(TokensWithoutAValue, LeaveOutTheirStep) {
  text_.sequences[100][7] = 18;
  const ReconstructionSummary summary = run_well("work");
  for (const LayerOutcome& layer : summary.layers) {
    EXPECT_LT(layer.after, layer.before);
    EXPECT_EQ(layer.skipped, layer.passes);  // one step in each pass
  }
}

TEST_F(TokensWithoutAValue, EndALayerAfterThreeSteps) {
  for (auto& sequence : text_.sequences) sequence[7] = 18;
  const ReconstructionSummary summary = run_well("work");
  for (const LayerOutcome& layer : summary.layers) {
    EXPECT_GT(layer.before, 0.0);
    EXPECT_EQ(layer.after, layer.before);
    EXPECT_EQ(layer.skipped, 3);
    EXPECT_EQ(layer.passes, 1);
  }
  EXPECT_TRUE(same_tensors(result("work"), bytes(compressed_.path() / "model.safetensors")));
}

TEST_F(LayersLearn, FewerTokensAreSpreadOverTheText) {
  use("llama");
  EXPECT_EQ(run_well("work", {.tokens = 100, .passes = 1, .reason = {}}).tokens, 80);
  EXPECT_EQ(run_well("cut", {.tokens = 30, .passes = 1, .reason = {}}).tokens, 30);
  text_.has_held_out = false;
  const ReconstructionSummary summary = run_well("own");
  EXPECT_EQ(summary.tokens, 280);  // one sequence of eight is held out
  EXPECT_EQ(summary.held_out_tokens, 40);
  // The sequences that are chosen may be longer than others.
  text_.has_held_out = true;
  text_.sequences[0].resize(20);
  text_.sequences[4].resize(70);
  EXPECT_EQ(run_well("uneven", {.tokens = 85, .passes = 1, .reason = {}}).tokens, 85);
}

TEST(HiddenStatesOfATokenStream, AreTheSameInAFile) {
  const model::ModelFolder folder;
  auto memory = HiddenStates::create(10, 7).value();
  auto file = HiddenStates::create(10, 7, folder.path() / "states").value();
  EXPECT_TRUE(fs::is_empty(folder.path()));
  const auto values = training::drawn_rows<float>("states", 10, 7);
  for (HiddenStates* const states : {&memory, &file}) {
    ASSERT_TRUE(states->write(0, values.view()).ok());
    ASSERT_TRUE(states->write(4, MatrixView<const float>(values.view()).row_range(1, 2)).ok());
    const auto read = states->read(3, 4).value();
    const int64_t expected[] = {3, 1, 2, 6};
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(std::equal(read.row(i), read.row(i) + 7, values.row(expected[i]))) << i;
    }
  }
  const auto nowhere = HiddenStates::create(10, 7, folder.path() / "none" / "states");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("none/states"), std::string::npos);
}

TEST(Reconstruct, IsAutoOffOrANumber) {
  for (const char* const text : {"auto", "off", "1", "131072"}) {
    EXPECT_EQ(reconstruct_text(parse_reconstruct(text).value()), text);
  }
  for (const char* const text : {"", "on", "0", "-5", "1e5", "12 ", "99999999999999999999"}) {
    EXPECT_FALSE(parse_reconstruct(text).ok()) << text;
  }
}

TEST(PlanOfReconstruction, DependsOnTextMachineAndModel) {
  using Mode = Reconstruct::Mode;
  io::ModelConfig config = model::tiny_config(io::Architecture::kLlama);
  const int64_t enough = layer_memory(config);
  CalibrationSequences text;
  text.sequences.assign(16, std::vector<text::TokenId>(1024));
  const auto plan = [&](Reconstruct asked, TrainingSpeed speed, int64_t memory) {
    return plan_reconstruction(asked, &text, config, {speed, memory});
  };
  const Reconstruct automatic = {Mode::kAuto, 0}, some = {Mode::kTokens, 5000};
  const ReconstructionPlan with_amx = plan(automatic, TrainingSpeed::kAmx, enough);
  EXPECT_EQ(with_amx.tokens, 16384);
  EXPECT_GT(with_amx.passes, plan(automatic, TrainingSpeed::kBf16, enough).passes);
  EXPECT_EQ(plan(automatic, TrainingSpeed::kPlain, enough).tokens, 0);
  EXPECT_EQ(plan(some, TrainingSpeed::kPlain, enough).tokens, 5000);
  EXPECT_EQ(plan({Mode::kTokens, 1 << 20}, TrainingSpeed::kPlain, enough).tokens, 16384);
  EXPECT_EQ(plan({Mode::kOff, 0}, TrainingSpeed::kAmx, enough).tokens, 0);
  EXPECT_EQ(plan(automatic, TrainingSpeed::kAmx, enough - 1).tokens, 0);
  EXPECT_TRUE(check_reconstruct(automatic, config, {TrainingSpeed::kAmx, 0}).ok());
  const Status refused = check_reconstruct(some, config, {TrainingSpeed::kAmx, enough - 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("memory"), std::string::npos);
  EXPECT_EQ(plan_reconstruction(automatic, nullptr, config, {TrainingSpeed::kAmx, enough}).tokens,
            0);
  text.sequences.pop_back();
  EXPECT_EQ(plan(automatic, TrainingSpeed::kAmx, enough).tokens, 0);
  text.sequences.resize(20, text.sequences[0]);
  // A mixture needs the memory of all its experts.
  config = model::tiny_config(io::Architecture::kGptOss);
  EXPECT_GT(layer_memory(config), enough);
  EXPECT_EQ(plan(automatic, TrainingSpeed::kAmx, enough).tokens, 0);
  EXPECT_FALSE(check_reconstruct(some, config, {TrainingSpeed::kAmx, enough}).ok());
  EXPECT_GT(plan(automatic, TrainingSpeed::kAmx, layer_memory(config)).tokens, 0);
}

}  // namespace
}  // namespace neuronmm::compress
