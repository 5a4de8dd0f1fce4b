// Tests whole fine-tuning runs on a tiny model: what they learn, how they are interrupted and
// resumed, and what they refuse.

#include "finetune/finetune.h"

#include <nlohmann/json.hpp>

#include "base/task_labels.h"
#include "compress/output/model_card.h"
#include "finetune/block_refinement.h"
#include "finetune/training.h"
#include "finetune/training_folder.h"
#include "finetune_fixture.h"

namespace neuronmm::finetune {
namespace {

TEST_F(Finetune, TheModelCardNamesTheForm) {
  write_model(input_, config_, compressed_model(config_, "neurons", 3));
  run_or_throw(request("out"));
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
    const FinetuneSummary summary = run_or_throw(wanted);
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

// A dense layer among narrower ones and all pivot indices must stay unchanged.
TEST_F(Finetune, EveryFormLearnsAndKeepsItsShape) {
  for (const std::string form : {"pivoted", "narrow", "neurons", "mixed"}) {
    SCOPED_TRACE(form);
    write_model(input_, config_, compressed_model(config_, form, 5));
    FinetuneRequest wanted = request("out");
    wanted.recipe.phases = {Part::kFactors};
    wanted.recipe.epochs = 4;
    wanted.force = true;
    const std::vector<double> losses = run_or_throw(wanted).phases.at(0).epoch_losses;
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
  const FinetuneSummary summary = run_or_throw(wanted);
  const std::vector<double>& losses = summary.phases.at(0).epoch_losses;
  EXPECT_LT(losses.back(), 0.8 * losses.front());
  EXPECT_GT(losses.back(), 0.0);
}

TEST_F(Finetune, AnInterruptedAndResumedRunGivesTheSameBytes) {
  for (const std::string which : {"v,u", "factors", "all"}) {
    FinetuneRequest whole = request("whole"), parts = request("parts");
    whole.force = true;
    whole.recipe.phases = parts.recipe.phases = parse_parts(which).value();
    const FinetuneSummary expected = run_or_throw(whole);
    const auto steps = static_cast<int64_t>(whole.recipe.phases.size()) * 10;
    for (const int64_t stop : {int64_t{1}, int64_t{4}, int64_t{5}, int64_t{9}, int64_t{13}}) {
      if (stop >= steps) continue;
      SCOPED_TRACE(fmt::format("{} after {} of {} steps", which, stop, steps));
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
      other.recipe.learning_rate *= 2;
      expect_refused(other, {"parts.partial", "unfinished run", "learning_rate"});
      const FinetuneSummary summary = run_or_throw(parts, [&](const StepReport&) { ++done; });
      EXPECT_EQ(done, steps);
      EXPECT_EQ(bytes("parts"), bytes("whole"));
      for (size_t phase = 0; phase < expected.phases.size(); ++phase)
        EXPECT_EQ(summary.phases[phase].epoch_losses, expected.phases[phase].epoch_losses);
      fs::remove_all(path("parts"));
    }
  }
}

// The training text about sheep first helps with the other text, and later no longer.
TEST_F(Finetune, EveryPhaseEndsWithTheBestStateOnTheValidationText) {
  FinetuneRequest wanted = request("out");
  wanted.validation = input_.path() / "other.txt";
  wanted.recipe.phases = {Part::kBoth};
  wanted.recipe.learning_rate = 0.1;
  wanted.recipe.validate_every = 2;
  const FinetuneSummary summary = run_or_throw(wanted);
  const std::vector<Validation>& validations = summary.phases.at(0).validations;
  ASSERT_EQ(validations.size(), 6u);  // at steps 0, 2, ... 10
  EXPECT_EQ(validations.back().step, 10);
  EXPECT_NEAR(validations.front().loss, validation_loss(input_.path(), wanted), 1e-4);
  const Validation best = best_of(validations, 0).value();
  EXPECT_GT(best.step, 0);
  EXPECT_LT(best.step, 10);
  EXPECT_NEAR(validation_loss(path("out"), wanted), best.loss, 1e-4);
}

// A model that is its own teacher cannot get better, so that its best state is the first one.
TEST_F(Finetune, PatienceEndsAPhaseThatGetsNoBetter) {
  write_model(dense_, config_, factored_tensors(config_, 3));
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  wanted.validation = input_.path() / "other.txt";
  wanted.recipe.phases = {Part::kBoth, Part::kFactors};
  wanted.recipe.learning_rate = 0.1;
  wanted.recipe.validate_every = 2;
  wanted.recipe.patience = 2;
  const FinetuneSummary summary = run_or_throw(wanted);
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

TEST_F(Finetune, RefinedLayersApproachTheTeachers) {
  write_model(input_, config_, compressed_model(config_, "mixed", 5));
  FinetuneRequest wanted = request("out");
  wanted.teacher = dense_.path();
  wanted.recipe.phases = {Part::kFactors};
  wanted.recipe.block_epochs = 3;
  const FinetuneSummary summary = run_or_throw(wanted);
  ASSERT_EQ(summary.phases.size(), 2u);
  EXPECT_EQ(summary.phases[0].part, Part::kBlocks);
  const std::vector<BlockError>& blocks = summary.phases[0].blocks;
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_LT(blocks[0].after, 0.8 * blocks[0].before);
  EXPECT_EQ(blocks[1].after, blocks[1].before);  // a dense layer stays
  EXPECT_TRUE(summary.phases[0].epoch_losses.empty());
  EXPECT_EQ(summary.phases[1].epoch_losses.size(), 2u);
}

TEST_F(Finetune, ARunWithEveryKindOfPhaseResumesToTheSameBytes) {
  const FinetuneRequest parts = request_with_all_phases("parts");
  const FinetuneSummary expected = run_or_throw(request_with_all_phases("whole"));
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
    const FinetuneSummary summary = run_or_throw(parts, [&](const StepReport&) { ++done; });
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

// With a limit of one example's length, layers must learn from the first example of the shuffled
// order only.
TEST_F(Finetune, LayersAreRefinedOnNoMoreTextThanAsked) {
  const std::vector<Example> examples = random_examples(10, config_.vocab_size, 9);
  const Example& first = examples[shuffled(examples.size(), 0, 0, 0).front()];
  const auto refined = [&](const Dataset& data, int64_t tokens) {
    Recipe recipe;
    recipe.block_learning_rate = 1e-2;
    recipe.block_epochs = 2;
    recipe.block_tokens = tokens;
    TrainableModel model = load_or_throw({input_.path(), dense_.path()});
    Position position;
    const Dataset none;
    EXPECT_TRUE(
        BlockRefinement(recipe, data, none, model, silent_).run(position, [] { return Status(); }));
    std::vector<double> errors;
    for (const auto& block : position.blocks) errors.push_back(block.after);
    return errors;
  };
  const std::vector<double> limited = refined({examples}, first.length());
  EXPECT_EQ(limited, refined({{first}}, int64_t{1} << 16));
  EXPECT_NE(limited, refined({examples}, int64_t{1} << 16));
}

// An interrupted refinement must continue with the next layer.
TEST_F(Finetune, RefinedLayersAreKeptAfterAnInterrupt) {
  const std::vector<Example> examples = random_examples(10, config_.vocab_size, 9);
  const Dataset data = {examples}, none;
  Recipe recipe;
  recipe.learning_rate = 1e30;  // the rate of the phases that would follow
  recipe.block_learning_rate = 1e-2;
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
  for (const auto& block : done.blocks) EXPECT_LT(block.after, block.before);
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

// An epoch has 5 steps, so that 7 steps are an epoch and a part of the next one.
TEST_F(Finetune, ALimitOfStepsEndsEveryPhase) {
  FinetuneRequest whole = request("whole"), parts = request("parts");
  whole.recipe.steps = parts.recipe.steps = 7;
  double last_rate = 1.0;
  const FinetuneSummary expected =
      run_or_throw(whole, [&](const StepReport& step) { last_rate = step.learning_rate; });
  EXPECT_NEAR(last_rate, whole.recipe.learning_rate / 7,
              1e-12);  // the rate would fall to 0 after the last step
  ASSERT_EQ(expected.phases.size(), 2u);
  for (const PhaseSummary& phase : expected.phases) {
    EXPECT_EQ(phase.steps, 7);
    EXPECT_EQ(phase.epoch_losses.size(), 2u);
  }
  int64_t done = 0;
  ASSERT_FALSE(run(parts, [&](const StepReport&) { set_interrupted(++done == 9); }).ok());
  set_interrupted(false);
  parts.resume = true;
  run_or_throw(parts, [&](const StepReport&) { ++done; });
  EXPECT_EQ(done, 14);
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

TEST_F(Finetune, TheMicroBatchChangesLossesByRoundingOnly) {
  const auto losses = [&](int64_t micro_batch) {
    FinetuneRequest wanted = request(fmt::format("micro{}", micro_batch));
    wanted.recipe.micro_batch = micro_batch;
    std::vector<double> values;
    run_or_throw(wanted, [&](const StepReport& step) { values.push_back(step.loss); });
    return values;
  };
  const std::vector<double> single = losses(1), all = losses(7);
  ASSERT_EQ(single.size(), 20u);
  for (size_t i = 0; i < single.size(); ++i) EXPECT_NEAR(single[i], all[i], 1e-4) << i;
}

TEST_F(Finetune, DivergenceKeepsTheLastGoodState) {
  FinetuneRequest diverging = request("out");
  diverging.recipe.phases = {Part::kBoth};
  ASSERT_FALSE(
      run(diverging, [&](const StepReport& step) { set_interrupted(step.step == 2); }).ok());
  set_interrupted(false);
  diverging.resume = true;
  diverging.recipe.learning_rate = 1e30;
  expect_refused(diverging,
                 {"NaN or infinite", "step 5", "step 3 is kept", "resume", "learning rate"});
  EXPECT_FALSE(fs::exists(path("out")));
  diverging.recipe.learning_rate = 1e-2;
  run_or_throw(diverging);
  FinetuneRequest reference = request("expected");
  reference.recipe.phases = {Part::kBoth};
  run_or_throw(reference);
  EXPECT_EQ(bytes("out"), bytes("expected"));
}

TEST(FinetuneTasks, EveryPhaseIsDeclaredWithItsSequences) {
  Recipe recipe;
  recipe.phases = {Part::kU, Part::kV};
  recipe.epochs = 3;
  recipe.batch = 10;
  std::vector<ExpectedTask> tasks = expected_tasks(recipe, 100);
  ASSERT_EQ(tasks.size(), 3u);
  EXPECT_TRUE(tasks[0].label.starts_with("phase 1 of 2 (")) << tasks[0].label;
  EXPECT_TRUE(tasks[1].label.starts_with("phase 2 of 2 (")) << tasks[1].label;
  EXPECT_EQ(tasks[0].share, 300.0);
  EXPECT_EQ(tasks[2].label, task::kWriting);
  recipe.steps = 4;
  recipe.self_generated = 20 * recipe.cutoff;
  tasks = expected_tasks(recipe, 100);
  ASSERT_EQ(tasks.size(), 4u);
  EXPECT_EQ(tasks[0].label, task::kWritingText);
  EXPECT_EQ(tasks[0].share, 20.0);
  EXPECT_EQ(tasks[1].share, 40.0);
}

TEST_F(Finetune, RefusesToContinueAnotherRun) {
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

TEST_F(Finetune, RefusesModelsAndDataThatCannotBeTrained) {
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
  FinetuneRequest bad_folder = request("no/such/folder/out");
  std::ofstream(path("no")) << "a file";
  expect_refused(bad_folder, {path("no"), "found a file"});

  FinetuneRequest without_data = request("out");
  without_data.data.clear();
  expect_refused(without_data, {"data", "neither"});
  FinetuneRequest without_teacher = request("out");
  without_teacher.recipe.block_epochs = 1;
  expect_refused(without_teacher, {"teacher", "refining layers"});
  without_teacher.recipe.self_generated = 10;
  expect_refused(without_teacher, {"teacher", "text that it writes"});
  FinetuneRequest without_validation = request("out");
  without_validation.validation = path("absent.txt");
  expect_refused(without_validation, {"absent.txt"});

  io::ModelConfig small = config_;
  small.vocab_size = 19;
  write_model(dense_, small, model::random_tensors(small, 4));
  FinetuneRequest other_vocabulary = request("out");
  other_vocabulary.teacher = dense_.path();
  expect_refused(other_vocabulary, {"teacher", "256", "19"});
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_FALSE(fs::exists(path("out.partial")));
}

TEST(Recipe, LearningRateRisesAndFalls) {
  Recipe recipe;
  recipe.learning_rate = 1.0;
  recipe.warmup = 4;
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 44), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 3, 44), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 4, 44), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 43, 44), 1.0 / 40);
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 20),
                   0.5);  // the warm-up is at most a tenth of all steps
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 1), 1.0);
  recipe.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(recipe, 0, 10), 1.0);
  recipe.block_learning_rate = 0.5;
  EXPECT_DOUBLE_EQ(block_learning_rate_at(recipe, 5, 10), 0.25);
}

TEST(Recipe, PartsAreParsed) {
  const auto parts = parse_parts("v,u,both,factors,all");
  ASSERT_TRUE(parts.ok());
  EXPECT_EQ(*parts, (std::vector{Part::kV, Part::kU, Part::kBoth, Part::kFactors, Part::kAll}));
  for (const char* const wrong : {"", "w", "u,", ",u", "u v"})
    EXPECT_FALSE(parse_parts(wrong).ok());
}

}  // namespace
}  // namespace neuronmm::finetune
