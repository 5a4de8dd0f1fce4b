// Tests whole fine-tuning runs on a tiny model: what they learn, how they are interrupted and
// resumed, and what they refuse.

#include "finetune/finetune.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/task_labels.h"
#include "compress/output/model_card.h"
#include "finetune/training.h"
#include "finetune/training_folder.h"
#include "finetune_fixture.h"

namespace neuronmm::finetune {
namespace {

bool is_layer_tensor(const std::string& name) {
  return name.starts_with("model.layers.") && !name.ends_with("_pivots");
}

TEST_F(Finetune, TheModelCardNamesTheForm) {
  write_model(input_, config_, compressed_model(config_, "neurons", 3));
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  run_or_throw(wanted);
  std::ifstream stream(path("out") / "README.md");
  const std::string card(std::istreambuf_iterator<char>(stream), {});
  EXPECT_NE(card.find(fmt::format("\n- {}\n", compress::form_tag("neurons"))), std::string::npos);
  EXPECT_NE(card.find("fine-tuned on | data.txt"), std::string::npos);
  EXPECT_NE(card.find("taught by"), std::string::npos);
}

// Every form must learn, and keep its shapes and the indices of its pivots.
TEST_F(Finetune, EveryFormLearnsAndKeepsItsShape) {
  for (const std::string form : {"uv", "pivoted", "narrow", "neurons", "mixed", "dense"}) {
    SCOPED_TRACE(form);
    if (form == "uv") {
      write_model(input_, config_, factored_tensors(config_, 5));
    } else if (form == "dense") {
      write_model(input_, config_, model::random_tensors(config_, 5));
    } else {
      write_model(input_, config_, compressed_model(config_, form, 5));
    }
    FinetuneRequest wanted = request("out");
    wanted.recipe.tokens = 20 * 7 * 16;
    wanted.force = true;
    const FinetuneSummary summary = run_or_throw(wanted);
    EXPECT_EQ(summary.position.updates, 20);
    EXPECT_LT(best_of(summary.position.measurements).held_out,
              0.9 * summary.position.measurements.front().held_out);
    const auto before = io::Checkpoint::open(input_.path()),
               after = io::Checkpoint::open(path("out"));
    ASSERT_TRUE(before.ok() && after.ok());
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    for (const auto& [name, tensor] : before->tensors()) {
      const TensorView& other = after->tensors().at(name);
      ASSERT_EQ(other.shape, tensor.shape);
      ASSERT_EQ(other.dtype, tensor.dtype);
      EXPECT_EQ(!is_layer_tensor(name),
                std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data))
          << name;
    }
    EXPECT_TRUE(fs::exists(path("out") / "tokenizer.json"));
    EXPECT_TRUE(fs::exists(path("out") / "generation_config.json"));
    EXPECT_EQ(fs::exists(path("out") / "modeling_neuronmm.py"), form != "dense");
    EXPECT_FALSE(fs::exists(path("out.partial")));
  }
}

TEST_F(Finetune, DistillationApproachesTheTeacher) {
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  wanted.validation = input_.path() / "other.txt";
  wanted.recipe.tokens = 30 * 7 * 16;
  const FinetuneSummary summary = run_or_throw(wanted);
  const std::vector<Measurement>& all = summary.position.measurements;
  EXPECT_LT(all.back().training, 0.8 * all[1].training);
  EXPECT_GT(all.back().training, 0.0);
  EXPECT_NEAR(all.front().held_out, validation_loss(input_.path(), wanted), 1e-5);
  EXPECT_NEAR(best_of(all).held_out, validation_loss(path("out"), wanted), 1e-5);
}

// A batch may be larger than the text. A step is then one pass over it.
TEST_F(Finetune, TokensAreCountedForBatchesLargerThanTheText) {
  FinetuneRequest wanted = request("out");
  wanted.recipe.batch = 1000;
  wanted.recipe.tokens = 3 * 33 * 16;  // one of 34 sequences is held out
  EXPECT_EQ(run_or_throw(wanted).planned_steps, 3);
}

// The seed decides about the order of the text.
TEST_F(Finetune, SeedsGiveDifferentModels) {
  FinetuneRequest other = request("other");
  other.recipe.seed = 1;
  run_or_throw(request("one"));
  run_or_throw(request("same"));
  run_or_throw(other);
  EXPECT_EQ(bytes("one"), bytes("same"));
  EXPECT_NE(bytes("one"), bytes("other"));
}

TEST_F(Finetune, AnInterruptedAndResumedRunGivesTheSameBytes) {
  const FinetuneRequest parts = request_with_everything("parts");
  const FinetuneSummary expected = run_or_throw(request_with_everything("whole"));
  EXPECT_EQ(expected.generated_tokens, 112);  // 7 sequences
  EXPECT_EQ(expected.position.step, 12);
  for (const int64_t stop : {1, 4, 5, 11}) {
    SCOPED_TRACE(stop);
    int64_t done = 0;
    const auto stopped = run(parts, [&](const StepReport&) { set_interrupted(++done == stop); });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    EXPECT_NE(stopped.error().message.find("parts.partial; run the same command again with "
                                           "--resume"),
              std::string::npos)
        << stopped.error().message;
    EXPECT_FALSE(fs::exists(path("parts")));
    set_interrupted(false);
    FinetuneRequest other = parts;
    other.recipe.learning_rate = 1e-3;
    expect_refused(other, {"parts.partial", "unfinished run", "learning_rate"});
    const FinetuneSummary summary = run_or_throw(parts, [&](const StepReport&) { ++done; });
    EXPECT_EQ(done, 12);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    EXPECT_EQ(to_text(summary.position), to_text(expected.position));
    fs::remove_all(path("parts"));
  }
}

// While the held-out loss is measured, norms have the values that a folder of bf16 will hold. The
// saved state must have those in fp32.
TEST_F(Finetune, ARunThatIsInterruptedWhileItMeasuresGivesTheSameBytes) {
  model::TestTensors tensors = factored_tensors(config_, 3);
  for (auto& [name, tensor] : tensors) tensor.dtype = DType::kBF16;
  write_model(input_, config_, tensors);
  const FinetuneSummary expected = run_or_throw(request("whole"));
  ASSERT_EQ(expected.position.measurements.size(), 6u) << "every step is followed by a measurement";
  int64_t done = 0;
  const auto stopped =
      run(request("parts"), [&](const StepReport&) { set_interrupted(++done == 3); });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
  set_interrupted(false);
  const FinetuneSummary summary = run_or_throw(request("parts"));
  EXPECT_TRUE(bytes("parts") == bytes("whole"));
  EXPECT_EQ(to_text(summary.position), to_text(expected.position));
}

// The state is saved after each step or never, so that a killed run goes on or begins again.
TEST_F(Finetune, AKilledRunGivesTheSameBytes) {
  FinetuneRequest parts = request_with_everything("parts");
  const FinetuneSummary expected = run_or_throw(request_with_everything("whole"));
  std::mt19937_64 random(std::random_device{}());
  for (int run = 0; run < 6; ++run) {
    const auto first = static_cast<int64_t>(1 + random() % 11);
    const auto second = static_cast<int64_t>(first + 1 + random() % (12 - first));
    SCOPED_TRACE(fmt::format("killed after steps {} and {}", first, second));
    parts.save_every = run % 3 == 2 ? std::chrono::hours(1) : std::chrono::milliseconds(-1);
    run_and_die(parts, first);
    EXPECT_FALSE(fs::exists(path("parts")));
    run_and_die(parts, second);
    const FinetuneSummary summary = run_or_throw(parts);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    EXPECT_EQ(to_text(summary.position), to_text(expected.position));
    fs::remove_all(path("parts"));
  }
}

// A run with an absurd rate gets worse at once, so that the first state is the best.
TEST_F(Finetune, TheBestStateOnTheHeldOutTextIsKept) {
  FinetuneRequest wanted = request("out");
  write_model(dense_, config_, factored_tensors(config_, 3));  // the model is its own teacher
  wanted.teacher = dense_.path();
  wanted.recipe.learning_rate = 0.1;
  const FinetuneSummary summary = run_or_throw(wanted);
  EXPECT_EQ(best_of(summary.position.measurements).step, 0);
  EXPECT_GT(summary.position.measurements.back().held_out, 0.01);
  const auto before = io::Checkpoint::open(input_.path()),
             after = io::Checkpoint::open(path("out"));
  ASSERT_TRUE(before.ok() && after.ok());
  for (const auto& [name, tensor] : before->tensors()) {
    EXPECT_TRUE(
        std::equal(tensor.data, tensor.data + tensor.size_bytes(), after->tensors().at(name).data))
        << name;
  }
}

// Weights are trained in fp32, and the folder has fewer bits. The best state is chosen by the loss
// that the folder will have.
TEST_F(Finetune, TheFolderHasTheLossOfTheKeptState) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(dtype_name(dtype));
    model::TestTensors tensors = factored_tensors(config_, 3);
    for (auto& [name, tensor] : tensors) tensor.dtype = dtype;
    write_model(input_, config_, tensors);
    FinetuneRequest wanted = request("out");
    wanted.teacher = dense_.path();
    wanted.validation = input_.path() / "other.txt";
    wanted.force = true;
    const FinetuneSummary summary = run_or_throw(wanted);
    const Measurement best = best_of(summary.position.measurements);
    EXPECT_LT(best.held_out, summary.position.measurements.front().held_out);
    EXPECT_NEAR(validation_loss(path("out"), wanted), best.held_out, 1e-6 * best.held_out);
    // A change that rounding undoes is no gain.
    wanted.recipe.learning_rate = 1e-9;
    const FinetuneSummary nothing = run_or_throw(wanted);
    EXPECT_GT(nothing.position.updates, 0);
    for (const Measurement& measurement : nothing.position.measurements) {
      EXPECT_EQ(measurement.held_out, nothing.position.measurements.front().held_out);
    }
    EXPECT_EQ(best_of(nothing.position.measurements).step, 0);
  }
}

// The tiny model has random weights, so that it wants a much higher rate than the usual one: the
// trial goes up as far as it may.
TEST_F(Finetune, ATrialFindsTheLearningRate) {
  FinetuneRequest wanted = request("out");
  wanted.recipe.learning_rate = 0.0;
  wanted.recipe.tokens = 60 * 7 * 16;
  const FinetuneSummary found = run_or_throw(wanted);
  ASSERT_EQ(found.position.trials.size(), 5u);
  EXPECT_DOUBLE_EQ(found.position.trials[1].learning_rate, 2e-5);
  EXPECT_DOUBLE_EQ(found.position.trials[4].learning_rate, 2e-5 * 27);
  EXPECT_DOUBLE_EQ(found.position.learning_rate, 2e-5 * 27);
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_LT(found.position.trials[i].loss, found.position.trials[i - 1].loss);
  }
  // The trials leave no trace: the same rate as an argument gives the same model.
  FinetuneRequest given = request("given");
  given.recipe.learning_rate = found.position.learning_rate;
  given.recipe.tokens = wanted.recipe.tokens;
  run_or_throw(given);
  EXPECT_EQ(bytes("given"), bytes("out"));
}

// The embedding of "z" is NaN, so that sequences with a "z" have gradients that are NaN.
class FinetuneNaN : public Finetune {
 protected:
  // Writes a training text in which each of 34 sequences has a "z" if bad(its number).
  FinetuneRequest request_with_bad(const std::function<bool(int)>& bad) {
    model::TestTensors tensors = factored_tensors(config_, 3);
    const auto tokenizer = text::Tokenizer::load(input_.path());
    const text::TokenId z = tokenizer->encode("z", {.add_special_tokens = false})->at(0);
    auto& table = tensors.at("model.embed_tokens.weight");
    std::fill_n(table.values.begin() + z * config_.hidden_size, config_.hidden_size,
                std::numeric_limits<float>::quiet_NaN());
    write_model(input_, config_, tensors);
    std::string words;
    for (int i = 0; i < 60; ++i) words += fmt::format("{} sheep, ", i % 7);
    for (int i = 0; i < 34; ++i) {  // a character is a token
      if (bad(i)) words.at(static_cast<size_t>(16 * i + 8)) = 'z';
    }
    input_.write_text("data.txt", words);
    FinetuneRequest wanted = request("out");
    wanted.validation = input_.path() / "other.txt";
    return wanted;
  }
};

TEST_F(FinetuneNaN, AStepWithoutAFiniteGradientIsSkipped) {
  const FinetuneSummary summary = run_or_throw(request_with_bad([](int i) { return i == 20; }));
  EXPECT_EQ(summary.position.step, 5);
  EXPECT_EQ(summary.position.skipped, 1);
  EXPECT_EQ(summary.position.updates, 4);
  EXPECT_LT(best_of(summary.position.measurements).held_out,
            summary.position.measurements.front().held_out);
}

TEST_F(FinetuneNaN, ThreeInARowEndTheRunAtTheLastGoodState) {
  FinetuneRequest wanted = request_with_bad([](int i) { return i % 2 == 1; });
  wanted.recipe.batch = 1;
  std::vector<double> losses;
  const FinetuneSummary summary =
      run_or_throw(wanted, [&](const StepReport& step) { losses.push_back(step.loss); });
  EXPECT_EQ(summary.position.skipped_in_row, 3);
  EXPECT_GT(summary.position.updates, 0);
  EXPECT_LT(summary.position.step, summary.planned_steps);
  EXPECT_EQ(std::ssize(losses), summary.position.step);
  for (size_t i = losses.size() - 3; i < losses.size(); ++i) EXPECT_FALSE(std::isfinite(losses[i]));
  EXPECT_NEAR(validation_loss(path("out"), wanted), best_of(summary.position.measurements).held_out,
              1e-5);
}

// The end of such a run is measured, too. An interrupt there must not make it train on.
TEST_F(FinetuneNaN, ARunThatIsInterruptedAtItsEndHasEnded) {
  FinetuneRequest wanted = request_with_bad([](int i) { return i % 2 == 1; });
  wanted.recipe.batch = 1;
  int64_t last = 0;
  const FinetuneSummary expected =
      run_or_throw(wanted, [&](const StepReport& step) { last = step.step; });
  wanted.out = path("parts");
  const auto stopped =
      run(wanted, [&](const StepReport& step) { set_interrupted(step.step == last); });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
  set_interrupted(false);
  const FinetuneSummary summary =
      run_or_throw(wanted, [&](const StepReport& step) { last = step.step; });
  EXPECT_EQ(last, expected.position.step);
  EXPECT_EQ(to_text(summary.position), to_text(expected.position));
  EXPECT_TRUE(bytes("parts") == bytes("out"));
}

// Training leaves out the step in which every trial ends.
TEST_F(FinetuneNaN, TheSmallestRateIsTakenIfEveryTrialDiverges) {
  FinetuneRequest wanted = request_with_bad([](int i) { return i == 20; });
  wanted.recipe.learning_rate = 0.0;
  const FinetuneSummary summary = run_or_throw(wanted);
  EXPECT_EQ(summary.position.trials.size(), 4u);
  EXPECT_DOUBLE_EQ(summary.position.learning_rate, 2e-5 / 9);
  EXPECT_EQ(summary.position.updates, 4);
}

TEST_F(FinetuneNaN, ARunWithoutAnyFiniteGradientFails) {
  expect_refused(request_with_bad([](int) { return true; }), {"first 3 steps", "NaN or infinite"});
  FinetuneRequest held_out = request_with_bad([](int i) { return i == 20; });
  input_.write_text("zoo.txt", "a zoo has no sheep at all");
  held_out.validation = input_.path() / "zoo.txt";
  expect_refused(held_out, {"held-out loss", "NaN or infinite", "before the first step"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST(FinetuneTasks, AreDeclaredWithTheirTokens) {
  Recipe recipe;
  std::vector<ExpectedTask> tasks = expected_tasks(recipe, 1'000'000);
  ASSERT_EQ(tasks.size(), 3u);
  EXPECT_EQ(tasks[0].share, 3 * 32768.0);
  EXPECT_EQ(tasks[1].share, 1e6);
  EXPECT_EQ(tasks[2].label, task::kWriting);
  recipe.learning_rate = 1e-4;
  recipe.self_generated = 500;
  recipe.tokens = 2000;
  tasks = expected_tasks(recipe, 1'000'000);
  ASSERT_EQ(tasks.size(), 3u);
  EXPECT_EQ(tasks[0].label, task::kWritingText);
  EXPECT_EQ(tasks[1].share, 2000.0);
}

TEST_F(Finetune, RefusesToContinueAnotherRun) {
  FinetuneRequest first = request("out");
  ASSERT_FALSE(run(first, [](const StepReport&) { set_interrupted(true); }).ok());
  set_interrupted(false);
  FinetuneRequest other = first;
  other.resume = true;
  other.recipe.tokens = 3000;
  expect_refused(other, {"out.partial", "tokens 0", "3000"});
  other.recipe = first.recipe;
  write_model(input_, config_, factored_tensors(config_, 77));
  expect_refused(other, {"out.partial", "model"});
  other.resume = false;
  other.force = true;
  run_or_throw(other);

  // Files that another command has left are not deleted either.
  const fs::path work = path("compressed.partial") / "work";
  fs::create_directories(work);
  std::ofstream(path("compressed.partial") / "neuronmm.json")
      << R"({"neuronmm": "unfinished output"})";
  std::ofstream(work / "layer-0") << "done";
  for (const char* settings : {"", R"({"ratio": 0.2})"}) {
    if (*settings != '\0') std::ofstream(work / "settings.json") << settings;
    expect_refused(request("compressed"), {"compressed.partial", "unfinished work"});
    EXPECT_TRUE(fs::exists(work / "layer-0")) << settings;
  }

  fs::create_directories(path("precious.partial"));
  std::ofstream(path("precious.partial") / "letter") << "keep me";
  FinetuneRequest over_other_files = request("precious");
  over_other_files.force = true;
  expect_refused(over_other_files, {"precious.partial", "other files"});
  EXPECT_TRUE(fs::exists(path("precious.partial") / "letter"));
}

TEST_F(Finetune, ADamagedRunIsNamedAndMayBeReplaced) {
  FinetuneRequest wanted = request("out");
  run_or_throw(request("whole"));
  for (const char* const file : {"state.safetensors", "settings.json"}) {
    SCOPED_TRACE(file);
    ASSERT_FALSE(run(wanted, [](const StepReport&) { set_interrupted(true); }).ok());
    set_interrupted(false);
    std::ofstream(path("out.partial") / "work" / file, std::ios::app) << "damaged";
    const auto refused = run(wanted);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, Error::Kind::kExists);  // --force replaces it
    EXPECT_NE(refused.error().message.find("cannot go on"), std::string::npos);
    EXPECT_NE(refused.error().message.find(file), std::string::npos) << refused.error().message;
    wanted.force = true;
    run_or_throw(wanted);
    EXPECT_TRUE(bytes("out") == bytes("whole"));
    fs::remove_all(path("out"));
    wanted.force = false;
  }
}

// Names of files and folders may hold any bytes.
TEST_F(Finetune, PathsNeedNotBeUtf8) {
  FinetuneRequest wanted = request("out");
  const fs::path folder = path("model \xff");
  fs::copy(input_.path(), folder, fs::copy_options::recursive);
  wanted.model = folder;
  wanted.data = folder / "data.txt";
  const auto stopped = run(wanted, [](const StepReport&) { set_interrupted(true); });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted) << stopped.error().message;
  set_interrupted(false);
  run_or_throw(wanted);
  write_model(input_, config_, model::random_tensors(config_, 3));
  fs::copy(input_.path(), folder,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  wanted.out = path("adapter");
  wanted.recipe.lora_rank = 2;
  run_or_throw(wanted);
  EXPECT_TRUE(fs::exists(path("adapter") / "adapter_config.json"));
}

TEST_F(Finetune, RefusesModelsAndDataThatCannotBeTrained) {
  FinetuneRequest cutoff = request("out");
  cutoff.recipe.cutoff = 65;
  expect_refused(cutoff, {"cutoff", "64", "65"});
  FinetuneRequest absent = request("out");
  absent.data = path("absent.json");
  expect_refused(absent, {"absent.json"});
  FinetuneRequest bad_folder = request("no/such/folder/out");
  std::ofstream(path("no")) << "a file";
  expect_refused(bad_folder, {path("no"), "found a file"});
  FinetuneRequest without_data = request("out");
  without_data.data.clear();
  expect_refused(without_data, {"data", "neither"});
  FinetuneRequest without_teacher = request("out");
  without_teacher.recipe.self_generated = 10;
  expect_refused(without_teacher, {"teacher", "text that it writes"});
  FinetuneRequest without_validation = request("out");
  without_validation.validation = path("absent.txt");
  expect_refused(without_validation, {"absent.txt"});
  FinetuneRequest trained_on = request("out");
  trained_on.validation = input_.path() / "copy.txt";
  fs::copy(input_.path() / "data.txt", trained_on.validation);
  expect_refused(trained_on, {"copy.txt", "not trained on", "100 %", "data.txt"});
  FinetuneRequest one_sequence = request("out");
  input_.write_text("short.txt", "a sheep");
  one_sequence.data = input_.path() / "short.txt";
  expect_refused(one_sequence, {"short.txt", "two sequences", "--validation"});
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST_F(Finetune, TheTeacherIsNeverReplaced) {
  FinetuneRequest wanted = request("out");
  wanted.teacher = wanted.out = path("teacher");
  fs::copy(dense_.path(), wanted.teacher, fs::copy_options::recursive);
  wanted.force = true;
  expect_refused(wanted, {"teacher", "the output must lie outside the input folder"});
  EXPECT_TRUE(fs::exists(path("teacher") / "model.safetensors"));
}

TEST_F(Finetune, RefusesTeachersThatAreNotTheModelBeforeCompression) {
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  const io::ModelConfig same = config_;
  config_.vocab_size = 19;
  write_model(dense_, config_, model::random_tensors(config_, 4));
  expect_refused(wanted, {"teacher", "256", "19"});
  config_ = same;
  config_.hidden_size = 32;
  write_model(dense_, config_, model::random_tensors(config_, 4));
  expect_refused(wanted, {"teacher", "hidden_size 16", "32"});
  config_ = same;
  write_model(dense_, config_, model::random_tensors(config_, 4));
  nlohmann::json tokenizer = text::small_tokenizer();
  auto& vocabulary = tokenizer["model"]["vocab"];
  const std::string one = vocabulary.begin().key();
  auto second = vocabulary.begin();
  ++second;
  std::swap(vocabulary[one], vocabulary[second.key()]);
  dense_.write_text("tokenizer.json", tokenizer.dump());
  expect_refused(wanted, {dense_.path().string(), "tokenizer of", input_.path().string()});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST(Recipe, LearningRateRisesAndFalls) {
  EXPECT_DOUBLE_EQ(learning_rate_at(1.0, 0, 40), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(1.0, 3, 40), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(1.0, 4, 40), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(1.0, 39, 40), 1.0 / 36);
  EXPECT_DOUBLE_EQ(learning_rate_at(1.0, 0, 1), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(2.0, 0, 5000), 0.02);  // at most 100 steps of warm-up
}

TEST(Position, IsReadAsItWasWritten) {
  const Position position = {
      .step = 7,
      .updates = 5,
      .skipped = 2,
      .skipped_in_row = 1,
      .learning_rate = 1.0 / 3,
      .trials = {{1e-5, 0.1}, {1e-3, std::numeric_limits<double>::infinity()}},
      .measurements = {{0, 0.3, 0.0}, {4, 0.1 + 0.2, 1e-300}},
      .loss_sum = 5e-324,
      .loss_tokens = 3};
  const auto read = parse_position(to_text(position), "file");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(to_text(*read), to_text(position));
  EXPECT_TRUE(std::isinf(read->trials[1].loss));
  EXPECT_EQ(read->measurements[1].held_out, 0.1 + 0.2);
  EXPECT_FALSE(parse_position("{}", "file").ok());
}

}  // namespace
}  // namespace neuronmm::finetune
