// Whole runs on a tiny model: what they learn, interrupting and resuming, what they refuse.

#include "finetune/finetune.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "factored_model.h"
#include "finetune/training_folder.h"
#include "io/safetensors_writer.h"
#include "text/small_tokenizer.h"

namespace neuronmm::finetune {
namespace {

namespace fs = std::filesystem;

class Finetune : public testing::Test {
 protected:
  void SetUp() override {
    set_num_threads(1);  // quick on a busy machine
    config_.vocab_size = 256;
    write_model(input_, config_, factored_tensors(config_, 3));
    write_model(dense_, config_, model::random_tensors(config_, 4));
    input_.write_text("tokenizer.json", text::small_tokenizer().dump());
    input_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("{} sheep, ", i % 7);
    input_.write_text("data.txt", text);
  }
  void TearDown() override {
    set_interrupted(false);
    set_num_threads(threads_);
  }

  fs::path path(const std::string& name) const { return outputs_.path() / name; }
  // 34 sequences of at most 16 tokens: 5 steps an epoch, the last of them smaller.
  FinetuneRequest request(const std::string& out) const {
    FinetuneRequest request;
    request.model = input_.path();
    request.out = path(out);
    request.data = input_.path() / "data.txt";
    request.recipe.rank = 2;
    request.recipe.learning_rate = 1e-2;
    request.recipe.batch = 7;
    request.recipe.micro_batch = 3;
    request.recipe.cutoff = 16;
    return request;
  }
  Result<FinetuneSummary> run(const FinetuneRequest& request, const OnStep& on_step = {}) {
    return finetune(request, silent_, on_step);
  }
  FinetuneSummary run_well(const FinetuneRequest& request, const OnStep& on_step = {}) {
    auto summary = run(request, on_step);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return std::move(summary).value();
  }
  void expect_refused(const FinetuneRequest& request, std::initializer_list<std::string> words) {
    const auto summary = run(request);
    ASSERT_FALSE(summary.ok());
    for (const std::string& word : words) {
      EXPECT_NE(summary.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << summary.error().message;
    }
  }
  std::string bytes(const std::string& out) const {
    std::ifstream stream(path(out) / "model.safetensors", std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const int threads_ = num_threads();
  io::ModelConfig config_ = model::tiny_config(io::Architecture::kLlama);
  model::ModelFolder input_, dense_, outputs_;
  Progress silent_;
};

TEST_F(Finetune, LearnsAndKeepsEveryShape) {
  for (const std::string which : {"v,u", "both", "factors"}) {
    SCOPED_TRACE(which);
    FinetuneRequest wanted = request("out");
    wanted.recipe.phases = parse_parts(which).value();
    wanted.recipe.epochs = 4;
    wanted.force = true;
    const FinetuneSummary summary = run_well(wanted);
    EXPECT_EQ(summary.phases.size(), wanted.recipe.phases.size());
    const double first = summary.phases.front().epoch_losses.front();
    EXPECT_LT(summary.phases.back().epoch_losses.back(), 0.9 * first);
    const auto before = io::Checkpoint::open(input_.path()),
               after = io::Checkpoint::open(path("out"));
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    for (const auto& [name, tensor] : before->tensors()) {
      const TensorView& other = after->tensors().at(name);
      ASSERT_EQ(other.shape, tensor.shape);
      ASSERT_EQ(other.dtype, tensor.dtype);
      const bool factor = name.find("u_proj") != std::string::npos ||
                          name.find("mlp.gate_v_proj") != std::string::npos ||
                          name.find("mlp.up_v_proj") != std::string::npos ||
                          name.find("mlp.down_v_proj") != std::string::npos;
      EXPECT_EQ(!factor, std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data))
          << name;
    }
    EXPECT_TRUE(fs::exists(path("out") / "tokenizer.json"));
    EXPECT_TRUE(fs::exists(path("out") / "generation_config.json"));
    EXPECT_TRUE(fs::exists(path("out") / "modeling_neuronmm.py"));
    EXPECT_TRUE(fs::exists(path("out") / "configuration_neuronmm.py"));
    EXPECT_FALSE(fs::exists(path("out") / "work"));
    EXPECT_FALSE(fs::exists(path("out.partial")));
  }
}

// A dense layer among the narrower ones stays as it is, and so do pivots.
TEST_F(Finetune, EveryFormLearnsAndKeepsItsShape) {
  for (const std::string form : {"pivoted", "narrow", "neurons", "mixed"}) {
    SCOPED_TRACE(form);
    write_model(input_, config_, formed_model(config_, form, 5));
    FinetuneRequest wanted = request("out");
    wanted.recipe.phases = {Part::kFactors};
    wanted.recipe.epochs = 4;
    wanted.force = true;
    const std::vector<double> losses = run_well(wanted).phases.at(0).epoch_losses;
    EXPECT_LT(losses.back(), 0.9 * losses.front());
    const auto before = io::Checkpoint::open(input_.path()),
               after = io::Checkpoint::open(path("out"));
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    for (const auto& [name, tensor] : before->tensors()) {
      const TensorView& other = after->tensors().at(name);
      ASSERT_EQ(other.shape, tensor.shape);
      const bool dense_layer = form == "mixed" && name.starts_with("model.layers.1.");
      const bool trained =
          name.find("mlp.") != std::string::npos && !name.ends_with("_pivots") && !dense_layer;
      EXPECT_EQ(!trained, std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data))
          << name;
    }
  }
}

TEST_F(Finetune, DistillationApproachesTheTeacher) {
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  wanted.recipe.phases = {Part::kFactors};
  wanted.recipe.epochs = 6;
  const FinetuneSummary summary = run_well(wanted);
  const std::vector<double>& losses = summary.phases.at(0).epoch_losses;
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  EXPECT_GT(losses.back(), 0.0);
}

TEST_F(Finetune, InterruptedAndResumedIsTheSame) {
  for (const std::string which : {"v,u", "factors"}) {
    FinetuneRequest whole = request("whole"), parts = request("parts");
    whole.force = true;
    whole.recipe.phases = parts.recipe.phases = parse_parts(which).value();
    const FinetuneSummary expected = run_well(whole);
    const auto steps = static_cast<int64_t>(whole.recipe.phases.size()) * 10;
    for (const int64_t stop : {int64_t{1}, int64_t{4}, int64_t{5}, int64_t{9}, int64_t{13}}) {
      if (stop >= steps) continue;
      SCOPED_TRACE(fmt::format("{} after {} of {} steps", which, stop, steps));
      int64_t done = 0;
      const auto stopped = run(parts, [&](const StepReport&) { set_interrupted(++done == stop); });
      ASSERT_FALSE(stopped.ok());
      EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
      EXPECT_NE(stopped.error().message.find("resumed"), std::string::npos);
      EXPECT_FALSE(fs::exists(path("parts")));
      set_interrupted(false);
      FinetuneRequest other = parts;
      other.recipe.learning_rate *= 2;
      expect_refused(other, {"parts.partial", "unfinished run", "learning_rate"});
      const FinetuneSummary summary = run_well(parts, [&](const StepReport&) { ++done; });
      EXPECT_EQ(done, steps);
      EXPECT_EQ(bytes("parts"), bytes("whole"));
      for (size_t phase = 0; phase < expected.phases.size(); ++phase)
        EXPECT_EQ(summary.phases[phase].epoch_losses, expected.phases[phase].epoch_losses);
      fs::remove_all(path("parts"));
    }
  }
}

// 5 steps an epoch: 7 steps are an epoch and a part of the next one.
TEST_F(Finetune, StepsEndEveryPhaseAndResume) {
  FinetuneRequest whole = request("whole"), parts = request("parts");
  whole.recipe.steps = parts.recipe.steps = 7;
  double last_rate = 1.0;
  const FinetuneSummary expected =
      run_well(whole, [&](const StepReport& step) { last_rate = step.learning_rate; });
  EXPECT_NEAR(last_rate, whole.recipe.learning_rate / 7, 1e-12);  // the rate falls to 0 after it
  ASSERT_EQ(expected.phases.size(), 2u);
  for (const PhaseSummary& phase : expected.phases) {
    EXPECT_EQ(phase.steps, 7);
    EXPECT_EQ(phase.epoch_losses.size(), 2u);
  }
  int64_t done = 0;
  ASSERT_FALSE(run(parts, [&](const StepReport&) { set_interrupted(++done == 9); }).ok());
  set_interrupted(false);
  parts.resume = true;
  run_well(parts, [&](const StepReport&) { ++done; });
  EXPECT_EQ(done, 14);
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

TEST_F(Finetune, TheMicroBatchOnlyRounds) {
  const auto losses = [&](int64_t micro_batch) {
    FinetuneRequest wanted = request(fmt::format("micro{}", micro_batch));
    wanted.recipe.micro_batch = micro_batch;
    std::vector<double> values;
    run_well(wanted, [&](const StepReport& step) { values.push_back(step.loss); });
    return values;
  };
  const std::vector<double> single = losses(1), all = losses(7);
  ASSERT_EQ(single.size(), 20u);
  for (size_t i = 0; i < single.size(); ++i) EXPECT_NEAR(single[i], all[i], 1e-4) << i;
}

TEST_F(Finetune, DivergenceKeepsTheLastGoodState) {
  FinetuneRequest wild = request("out");
  wild.recipe.phases = {Part::kBoth};
  ASSERT_FALSE(run(wild, [&](const StepReport& step) { set_interrupted(step.step == 2); }).ok());
  set_interrupted(false);
  wild.resume = true;
  wild.recipe.learning_rate = 1e30;
  expect_refused(wild, {"NaN or infinite", "step 5", "step 3 is kept", "resume", "learning rate"});
  EXPECT_FALSE(fs::exists(path("out")));
  wild.recipe.learning_rate = 1e-2;
  run_well(wild);
  FinetuneRequest calm = request("expected");
  calm.recipe.phases = {Part::kBoth};
  run_well(calm);
  EXPECT_EQ(bytes("out"), bytes("expected"));
}

TEST_F(Finetune, RefusesAnotherRun) {
  FinetuneRequest first = request("out");
  ASSERT_FALSE(run(first, [](const StepReport&) { set_interrupted(true); }).ok());
  set_interrupted(false);
  FinetuneRequest other = first;
  other.resume = true;
  other.recipe.epochs = 3;
  expect_refused(other, {"out.partial", "epochs 2", "3"});
  other.recipe = first.recipe;
  write_model(input_, config_, factored_tensors(config_, 77));
  expect_refused(other, {"out.partial", "model"});
  other.resume = false;
  other.force = true;
  run_well(other);

  fs::create_directories(path("precious.partial"));
  std::ofstream(path("precious.partial") / "letter") << "keep me";
  FinetuneRequest onto = request("precious");
  onto.force = true;
  expect_refused(onto, {"precious.partial", "other files"});
  EXPECT_TRUE(fs::exists(path("precious.partial") / "letter"));
}

TEST_F(Finetune, RefusesWhatCannotBeTrained) {
  FinetuneRequest dense = request("out");
  dense.model = dense_.path();
  dense_.write_text("tokenizer.json", text::small_tokenizer().dump());
  expect_refused(dense, {dense_.path().string(), "compressed model", "compress"});

  FinetuneRequest cutoff = request("out");
  cutoff.recipe.cutoff = 65;
  expect_refused(cutoff, {"cutoff", "64", "65"});
  FinetuneRequest absent = request("out");
  absent.data = path("absent.json");
  expect_refused(absent, {"absent.json"});
  FinetuneRequest nowhere = request("no/such/folder/out");
  std::ofstream(path("no")) << "a file";
  expect_refused(nowhere, {"no/such"});

  io::ModelConfig small = config_;
  small.vocab_size = 19;
  write_model(dense_, small, model::random_tensors(small, 4));
  FinetuneRequest taught = request("out");
  taught.teacher = dense_.path();
  expect_refused(taught, {"teacher", "256", "19"});
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST_F(Finetune, RefusesInt8) {
  const model::TestTensors tensors = factored_tensors(config_, 3);
  std::vector<io::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.dtype, tensor.shape});
  specs.push_back({"model.layers.9.quantized", DType::kI8, {3}});
  auto writer = io::SafetensorsWriter::create(input_.path() / "model.safetensors", specs);
  ASSERT_TRUE(writer.ok());
  for (const auto& [name, tensor] : tensors)
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(tensor.values))).ok());
  ASSERT_TRUE(writer->append(std::vector<std::byte>(3)).ok());
  ASSERT_TRUE(writer->finish().ok());
  expect_refused(request("out"), {"int8", "model.layers.9.quantized", "first"});
}

TEST(Recipe, LearningRateRisesAndFalls) {
  Recipe recipe;
  recipe.learning_rate = 1.0;
  recipe.warmup = 4;
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 44), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 3, 44), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 4, 44), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 43, 44), 1.0 / 40);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 20), 0.5);  // at most a tenth of all steps
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 1), 1.0);
  recipe.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 10), 1.0);
}

TEST(Recipe, PartsAreParsed) {
  const auto parts = parse_parts("v,u,both,factors");
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(*parts, (std::vector{Part::kV, Part::kU, Part::kBoth, Part::kFactors}));
  for (const char* const wrong : {"", "w", "u,", ",u", "u v"})
    EXPECT_FALSE(parse_parts(wrong).ok());
}

}  // namespace
}  // namespace neuronmm::finetune
