// Whole runs on a tiny model: what they learn, interrupting and resuming, what they refuse.

#include "finetune/finetune.h"

#include <cmath>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "compress/model_card.h"
#include "cpu/backend.h"
#include "factored_model.h"
#include "finetune/block_refinement.h"
#include "finetune/kept_grid.h"
#include "finetune/training_folder.h"
#include "io/safetensors_writer.h"
#include "model/generate.h"
#include "ops/reference.h"
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
    input_.write_text("other.txt", "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG");
    dense_.write_text("tokenizer.json", text::small_tokenizer().dump());
    dense_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
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

  // The mean loss of a folder, or a model, on what `request` holds out.
  double validation_loss(const fs::path& folder, const FinetuneRequest& request) const {
    return loss_of(load_or_throw({folder, request.teacher}), request);
  }
  double loss_of(const TrainableModel& model, const FinetuneRequest& request) const {
    std::ifstream stream(request.validation);
    const std::string content(std::istreambuf_iterator<char>(stream), {});
    const Dataset data =
        read_dataset(content, request.validation, text::Tokenizer::load(input_.path()).value(),
                     config_, request.recipe.cutoff)
            .value();
    double tokens = 0.0;
    for (const Example& example : data.examples) {
      tokens += static_cast<double>(example.scored_tokens());
    }
    return model.loss_sum(pointers(data.examples)) / tokens;
  }
  // With everything that a run may do.
  FinetuneRequest elaborate_request(const std::string& out) const {
    FinetuneRequest wanted = request(out);
    wanted.teacher = dense_.path();
    wanted.validation = input_.path() / "other.txt";
    wanted.backend = backend_.get();
    wanted.recipe.phases = {Part::kV, Part::kFactors};
    wanted.recipe.block_epochs = 1;
    wanted.recipe.validate_every = 4;
    wanted.recipe.self_generated = 100;
    return wanted;
  }

  const std::unique_ptr<ops::Backend> backend_ = ops::make_reference_backend();
  const int threads_ = num_threads();
  io::ModelConfig config_ = model::tiny_config(io::Architecture::kLlama);
  model::ModelFolder input_, dense_, outputs_;
  Progress silent_;
};

double distance_of(const Matrix& a, const Matrix& b) {
  double sum = 0.0;
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t j = 0; j < a.columns(); ++j) {
      sum += std::pow(static_cast<double>(a.row(i)[j]) - static_cast<double>(b.row(i)[j]), 2);
    }
  }
  return std::sqrt(sum);
}

const compress::WeightFormats kFewBits[] = {
    compress::quantized_formats(8), compress::quantized_formats(6), compress::quantized_formats(4),
    compress::quantized_formats(4, 32, 4)};

class FinetuneRounded : public Finetune {
 protected:
  FinetuneRequest rounded_request(const std::string& out,
                                  const compress::WeightFormats& weights) const {
    FinetuneRequest wanted = request(out);
    wanted.weights = weights;
    wanted.force = true;
    wanted.teacher = dense_.path();
    wanted.validation = input_.path() / "other.txt";
    wanted.recipe.phases = {Part::kFactors};
    wanted.recipe.block_epochs = 1;
    return wanted;
  }
  static TrainableModel load_rounded(const fs::path& folder, const fs::path& teacher) {
    ModelOptions options = {folder, teacher};
    options.rounding = config_of(folder).quantization;
    return load_or_throw(options);
  }
  static io::ModelConfig config_of(const fs::path& folder) {
    return io::ModelConfig::load(folder / "config.json").value();
  }
  static Matrix logits(const fs::path& folder, const ops::Backend& backend,
                       const std::vector<text::TokenId>& tokens) {
    return model::all_logits(model::Transformer::load(folder, backend).value(), tokens);
  }
};

// The folder has the loss that training measured last; and training's forward pass is that of the
// CPU's kernels: sums in another order move a value across a rounding's boundary in about one of
// 4000 cases (1e-6 of the largest, of steps of 1/127 of it), each by a whole step, so that the
// logits differ by sqrt(12 / 4000), 5 %, of what rounding the activations does to them.
TEST_F(FinetuneRounded, TheFolderIsWhatWasTrained) {
  const auto cpu = cpu::make_backend();
  const std::vector<text::TokenId> tokens = model::random_tokens(40, config_.vocab_size, 9);
  for (const compress::WeightFormats& weights : kFewBits) {
    for (const std::string form : {"", "pivoted", "narrow", "neurons", "mixed"}) {
      SCOPED_TRACE(fmt::format("{} {}", compress::weights_text(weights), form));
      if (form.empty()) {
        write_model(input_, config_, factored_tensors(config_, 3));
      } else {
        write_model(input_, config_, formed_model(config_, form, 3));
      }
      const FinetuneRequest wanted = rounded_request("out", weights);
      const FinetuneSummary summary = run_well(wanted);
      const auto best = best_of(summary.phases.back().validations, 1);
      ASSERT_TRUE(best.has_value());
      EXPECT_LT(best->loss, summary.phases.back().validations.front().loss);
      EXPECT_EQ(config_of(path("out")).quantization,
                compress::quantization_of(weights, config_of(input_.path())));
      const TrainableModel trained = load_rounded(path("out"), dense_.path());
      EXPECT_NEAR(loss_of(trained, wanted), best->loss, 1e-5 * best->loss);
      const Matrix found = trained.logits(tokens), kernels = logits(path("out"), *cpu, tokens);
      const double rounding = distance_of(logits(path("out"), *backend_, tokens), kernels);
      EXPECT_GT(rounding, 0.0);
      EXPECT_LT(distance_of(found, kernels), 0.2 * rounding);
    }
  }
}

// What is not trained stays byte for byte, and of 6 and 4 bits the grids of what is.
TEST_F(FinetuneRounded, AFolderOfFewBitsKeepsItsFormats) {
  for (const compress::WeightFormats& weights : kFewBits) {
    SCOPED_TRACE(compress::weights_text(weights));
    run_well(rounded_request("out", weights));
    FinetuneRequest again = rounded_request("again", std::nullopt);  // what the folder is
    again.model = path("out");
    run_well(again);
    EXPECT_EQ(config_of(path("again")).quantization, config_of(path("out")).quantization);
    const auto before = io::Checkpoint::open(path("out")),
               after = io::Checkpoint::open(path("again"));
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    int changed = 0;
    for (const auto& [name, tensor] : before->tensors()) {
      const TensorView& other = after->tensors().at(name);
      ASSERT_EQ(other.shape, tensor.shape);
      ASSERT_EQ(other.dtype, tensor.dtype);
      const bool same = std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data);
      const bool of_grid = weights->linear.bits < 8 && !name.ends_with("weight");
      EXPECT_TRUE(same || (name.find("mlp") != std::string::npos && !of_grid)) << name;
      changed += same ? 0 : 1;
    }
    EXPECT_GT(changed, 0);
  }
}

// Texts that decided on the rounding stay on record, and an untrained folder as it is.
TEST_F(FinetuneRounded, AStateThatWasTheBestAtOnceIsTheFolder) {
  run_well(rounded_request("out", kFewBits[2]));
  std::string text;
  {
    std::ifstream stream(path("out") / "config.json");
    text = {std::istreambuf_iterator<char>(stream), {}};
  }
  io::Quantization quantization = *config_of(path("out")).quantization;
  quantization.calibration = {{"text.txt", "0123456789abcdef", 100, 20}};
  std::ofstream(path("out") / "config.json")
      << io::with_quantization(text, "config.json", quantization).value();
  FinetuneRequest again = rounded_request("again", kFewBits[2]);
  again.model = path("out");
  again.recipe.block_epochs = 0;
  again.recipe.learning_rate = 1e-9;
  run_well(again);
  EXPECT_EQ(config_of(path("again")).quantization, quantization);
  const auto before = io::Checkpoint::open(path("out")),
             after = io::Checkpoint::open(path("again"));
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ(before->tensors().size(), after->tensors().size());
  for (const auto& [name, tensor] : before->tensors()) {
    EXPECT_TRUE(
        std::equal(tensor.data, tensor.data + tensor.size_bytes(), after->tensors().at(name).data))
        << name;
  }
}

TEST_F(FinetuneRounded, ResumedRunsGiveTheSameBytes) {
  for (const compress::WeightFormats& weights : {kFewBits[1], kFewBits[2]}) {
    SCOPED_TRACE(compress::weights_text(weights));
    run_well(rounded_request("whole", weights));
    int64_t steps = 0;
    const auto stopped = run(rounded_request("parts", weights),
                             [&](const StepReport&) { set_interrupted(++steps == 3); });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    set_interrupted(false);
    FinetuneRequest rest = rounded_request("parts", weights);
    rest.force = false;
    rest.resume = true;
    run_well(rest);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(FinetuneRounded, RefusesAdaptersAndOtherBits) {
  for (const compress::WeightFormats& weights : kFewBits) {
    FinetuneRequest wanted = rounded_request("out", weights);
    wanted.recipe.phases = {Part::kV};
    expect_refused(wanted, {"which", "factors"});
  }
  run_well(rounded_request("out", kFewBits[2]));
  FinetuneRequest other = rounded_request("again", kFewBits[0]);
  other.model = path("out");
  expect_refused(other, {"4 bits in groups of 16", "int8", "original"});
  EXPECT_FALSE(fs::exists(path("again")));
}

TEST_F(Finetune, TheCardNamesTheForm) {
  write_model(input_, config_, formed_model(config_, "neurons", 3));
  run_well(request("out"));
  std::ifstream stream(path("out") / "README.md");
  const std::string card(std::istreambuf_iterator<char>(stream), {});
  EXPECT_NE(card.find(fmt::format("\n- {}\n", compress::form_tag("neurons"))), std::string::npos);
  EXPECT_EQ(card.find("- low-rank\n"), std::string::npos);
}

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

// What is learned of sheep helps with other text at first, and then no more.
TEST_F(Finetune, EveryPhaseEndsWithTheBestStateOnTheValidationText) {
  FinetuneRequest wanted = request("out");
  wanted.validation = input_.path() / "other.txt";
  wanted.recipe.phases = {Part::kBoth};
  wanted.recipe.learning_rate = 0.1;
  wanted.recipe.validate_every = 2;
  const FinetuneSummary summary = run_well(wanted);
  const std::vector<Validation>& validations = summary.phases.at(0).validations;
  ASSERT_EQ(validations.size(), 6u);  // 0, 2, ... 10
  EXPECT_EQ(validations.back().step, 10);
  EXPECT_NEAR(validations.front().loss, validation_loss(input_.path(), wanted), 1e-4);
  const Validation best = best_of(validations, 0).value();
  EXPECT_GT(best.step, 0);
  EXPECT_LT(best.step, 10);
  EXPECT_NEAR(validation_loss(path("out"), wanted), best.loss, 1e-4);
}

// Nothing is better than a model that is its own teacher: the best state is the first one.
TEST_F(Finetune, PatienceEndsAPhaseThatGetsNoBetter) {
  write_model(dense_, config_, factored_tensors(config_, 3));
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  wanted.validation = input_.path() / "other.txt";
  wanted.recipe.phases = {Part::kBoth, Part::kFactors};
  wanted.recipe.learning_rate = 0.1;
  wanted.recipe.validate_every = 2;
  wanted.recipe.patience = 2;
  const FinetuneSummary summary = run_well(wanted);
  for (const PhaseSummary& phase : summary.phases) {
    EXPECT_EQ(phase.steps, 4);
    EXPECT_EQ(phase.validations.size(), 3u);
    EXPECT_EQ(phase.epoch_losses.size(), 1u);
  }
  const auto before = io::Checkpoint::open(input_.path()),
             after = io::Checkpoint::open(path("out"));
  ASSERT_TRUE(before.ok() && after.ok());
  for (const auto& [name, tensor] : before->tensors()) {
    EXPECT_TRUE(
        std::equal(tensor.data, tensor.data + tensor.size_bytes(), after->tensors().at(name).data))
        << name;
  }
}

TEST_F(Finetune, BlocksApproachTheTeachers) {
  write_model(input_, config_, formed_model(config_, "mixed", 5));
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  wanted.recipe.phases = {Part::kFactors};
  wanted.recipe.block_epochs = 3;
  const FinetuneSummary summary = run_well(wanted);
  ASSERT_EQ(summary.phases.size(), 2u);
  EXPECT_EQ(summary.phases[0].part, Part::kBlocks);
  const std::vector<BlockError>& blocks = summary.phases[0].blocks;
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_LT(blocks[0].after, 0.8 * blocks[0].before);
  EXPECT_EQ(blocks[1].after, blocks[1].before);  // a dense layer stays
  EXPECT_TRUE(summary.phases[0].epoch_losses.empty());
  EXPECT_EQ(summary.phases[1].epoch_losses.size(), 2u);
}

TEST_F(Finetune, EverythingResumesToTheSameBytes) {
  const FinetuneRequest parts = elaborate_request("parts");
  const FinetuneSummary expected = run_well(elaborate_request("whole"));
  EXPECT_EQ(expected.generated_tokens, 112);  // 7 sequences
  EXPECT_EQ(expected.examples, 41);
  int64_t steps = 0;
  for (const PhaseSummary& phase : expected.phases) {
    if (phase.part != Part::kBlocks) steps += phase.steps;
  }
  for (const int64_t stop : {int64_t{1}, int64_t{4}, int64_t{9}, int64_t{14}}) {
    SCOPED_TRACE(stop);
    int64_t done = 0;
    const auto stopped = run(parts, [&](const StepReport&) { set_interrupted(++done == stop); });
    ASSERT_FALSE(stopped.ok());
    set_interrupted(false);
    const FinetuneSummary summary = run_well(parts, [&](const StepReport&) { ++done; });
    EXPECT_EQ(done, steps);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    for (size_t phase = 0; phase < expected.phases.size(); ++phase) {
      EXPECT_EQ(summary.phases[phase].epoch_losses, expected.phases[phase].epoch_losses);
      EXPECT_EQ(summary.phases[phase].validations.size(),
                expected.phases[phase].validations.size());
    }
    fs::remove_all(path("parts"));
  }
}

// An interrupted refinement goes on with the next layer.
TEST_F(Finetune, RefinedLayersAreKept) {
  const std::vector<Example> examples = random_examples(10, config_.vocab_size, 9);
  const Dataset data = {examples}, none;
  Recipe recipe;
  recipe.learning_rate = 1e-2;
  recipe.block_epochs = 2;
  const auto factors_of = [](const TrainableModel& model) {
    std::vector<std::vector<float>> values;
    for (const io::TensorSpec& factor : model.factor_tensors()) {
      values.push_back(model.read(factor.name));
    }
    return values;
  };
  TrainableModel whole = load_or_throw({input_.path(), dense_.path()});
  Position done;
  ASSERT_TRUE(
      BlockRefinement(recipe, data, none, whole, silent_).run(done, [] { return Status(); }));
  EXPECT_EQ(done.step, 2);
  TrainableModel parts = load_or_throw({input_.path(), dense_.path()});
  Position position;
  const Status stopped = BlockRefinement(recipe, data, none, parts, silent_).run(position, [] {
    set_interrupted(true);
    return Status();
  });
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
  EXPECT_EQ(position.step, 1);
  set_interrupted(false);
  EXPECT_NE(factors_of(parts), factors_of(whole));
  ASSERT_TRUE(
      BlockRefinement(recipe, data, none, parts, silent_).run(position, [] { return Status(); }));
  EXPECT_EQ(factors_of(parts), factors_of(whole));
  EXPECT_EQ(position.blocks.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(position.blocks[i].after, done.blocks[i].after);
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

  FinetuneRequest nothing = request("out");
  nothing.data.clear();
  expect_refused(nothing, {"data", "neither"});
  FinetuneRequest untaught = request("out");
  untaught.recipe.block_epochs = 1;
  expect_refused(untaught, {"teacher", "refining layers"});
  untaught.recipe.self_generated = 10;
  expect_refused(untaught, {"teacher", "text that it writes"});
  FinetuneRequest unheld = request("out");
  unheld.validation = path("absent.txt");
  expect_refused(unheld, {"absent.txt"});

  io::ModelConfig small = config_;
  small.vocab_size = 19;
  write_model(dense_, small, model::random_tensors(small, 4));
  FinetuneRequest taught = request("out");
  taught.teacher = dense_.path();
  expect_refused(taught, {"teacher", "256", "19"});
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST_F(Finetune, RefusesRoundedTensorsThatConfigDoesNotNameRounded) {
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
  expect_refused(request("out"), {"int8", "model.layers.9.quantized"});
}

// What was rounded rounds to itself, 8 bits follow the values, and the grids of fewer stay.
TEST(KeptGrid, IsThatOfTheWeight) {
  std::mt19937_64 random(12);
  const Shape shape = {3, 150};
  const std::vector<float> values = random_values(450, random), moved = random_values(450, random);
  const auto view = [&](const std::vector<float>& of) {
    return TensorView{DType::kF32, shape, reinterpret_cast<const std::byte*>(of.data())};
  };
  for (const LowBitFormat& format :
       {LowBitFormat{8}, LowBitFormat{6}, LowBitFormat{4, 16}, LowBitFormat{4, 32}}) {
    SCOPED_TRACE(io::format_text(format));
    const ops::QuantizedWeight nearest = ops::quantize(view(values), format);
    EXPECT_EQ(KeptGrid(view(values), format).round(view(values)).values, nearest.values);
    std::vector<float> rounded(450);
    for (int64_t i = 0; i < 3; ++i) {
      ops::to_floats(nearest.view(), i * 150, 150, rounded.data() + i * 150);
    }
    const KeptGrid kept(nearest.view(), format);
    EXPECT_EQ(kept.round(view(rounded)).values, nearest.values);
    const ops::QuantizedWeight after = kept.round(view(moved));
    const auto scales = [](const ops::QuantizedWeight& weight) {
      return std::as_bytes(std::span(weight.scales));
    };
    EXPECT_EQ(std::ranges::equal(scales(after), scales(nearest)), format.bits < 8);
    EXPECT_EQ(after.multipliers, nearest.multipliers);
    if (format.bits == 8) {
      EXPECT_EQ(after.values, ops::quantize(view(moved)).values);
    }
  }
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
