// This test evaluates models from files to accuracies and perplexities.

#include "eval/evaluation.h"

#include <cmath>
#include <random>
#include <sstream>

#include "cpu/backend.h"
#include "eval/eval_test.h"
#include "eval/evaluation_json.h"
#include "eval/trade_off.h"
#include "model/naive_transformer.h"
#include "places.h"

namespace neuronmm::eval {
namespace {

const std::filesystem::path kDemo = source_dir() / "models/demo";

// A random model with the demo's tokenizer (2048 tokens), and a data folder.
class EvaluationTest : public EvalTest {
 protected:
  EvaluationTest() : tokenizer_(value_of(text::Tokenizer::load(kDemo))) {
    config_.vocab_size = 2048;
    settings_.data = folder_.path();
  }

  std::vector<LoadedTask> read(const std::string& tasks) const {
    return value_of(read_tasks(value_of(parse_tasks(tasks)), settings_));
  }
  Result<Evaluation> run(const model::Transformer& transformer, const std::string& tasks) {
    return evaluate(transformer, tokenizer_, read(tasks), settings_, silent_);
  }
  void write_piqa(int items) const {
    std::string lines;
    for (int i = 0; i < items; ++i) {
      lines += R"({"goal": "Find a cat.", "sol1": "Look at home.", "sol2": "Go", "label": )";
      lines += i % 2 == 0 ? "0}\n" : "1}\n";
    }
    folder_.write_text("piqa_val.jsonl", lines);
  }

  text::Tokenizer tokenizer_;
  model::ModelFolder folder_;
  EvaluationSettings settings_;
};

const char* const kSixTasks = "openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge";

double chance(const std::vector<TaskItem>& items) {
  double sum = 0.0;
  for (const TaskItem& item : items) sum += 1.0 / static_cast<double>(item.requests.size());
  return sum / static_cast<double>(items.size());
}

void expect_at_chance(const Accuracy& accuracy, const LoadedTask& data, uint64_t seed) {
  EXPECT_NEAR(accuracy.value, chance(data.items), 3.0 * accuracy.standard_error)
      << data.task->name << ", seed " << seed;
}

// The items of the six tasks can be scored, and a random model scores at chance. The test uses
// acc_norm if there is one. By acc such a model chooses the shortest answer, which in OpenBookQA is
// right for 13 % of the items.
TEST_F(EvaluationTest, ARandomModelScoresAtChance) {
  NMM_TEST_DATA_OR_SKIP(data, "tasks");
  constexpr uint64_t kSeed = 1;
  const auto backend = cpu::make_backend();
  config_.max_position_embeddings = 2048;
  const auto transformer =
      value_of(model::load_tiny(config_, model::random_tensors(config_, kSeed), *backend));
  settings_.data = data;
  settings_.limit = 300;  // all items would take many times as long
  const auto evaluation = value_of(run(transformer, kSixTasks));
  const auto read_data = read(kSixTasks);
  ASSERT_EQ(std::ssize(evaluation.results), kAccuracyTasks);
  for (size_t i = 0; i < read_data.size(); ++i) {
    const TaskResult& result = evaluation.results[i];
    EXPECT_EQ(result.likelihoods.items.size(), read_data[i].items.size());
    EXPECT_EQ(result.truncated, 0);
    expect_at_chance(result.score->acc_norm.value_or(result.score->acc), read_data[i], kSeed);
  }
}

// The right answers do not prefer a position.
TEST_F(EvaluationTest, RandomLikelihoodsScoreAtChance) {
  NMM_TEST_DATA_OR_SKIP(data, "tasks");
  constexpr uint64_t kSeed = 2;
  std::mt19937_64 random(kSeed);
  settings_.data = data;
  for (const LoadedTask& task : read(kSixTasks)) {
    std::vector<std::vector<double>> likelihoods;
    for (const TaskItem& item : task.items) {
      for (double& value : likelihoods.emplace_back(item.requests.size())) {
        value = -static_cast<double>(random() % 1'000'000);
      }
    }
    expect_at_chance(score_choices(task.items, likelihoods).acc, task, kSeed);
  }
}

// The expected values are independent of src/eval: prompts are written out, and whole sequences are
// computed in fp64.
TEST_F(EvaluationTest, LikelihoodsOfAFileAgreeWithWholeSequencesInFp64) {
  write_piqa(3);
  const model::TestTensors tensors = model::random_tensors(config_, 3);
  const auto evaluation = value_of(run(load(tensors), "piqa"));
  const auto& items = evaluation.results[0].likelihoods.items;
  ASSERT_EQ(items.size(), 3u);
  const std::string context = "Question: Find a cat.\nAnswer:";
  const auto start = std::ssize(tokenizer_.encode(context).value());
  for (size_t choice = 0; choice < 2; ++choice) {
    const auto tokens =
        tokenizer_.encode(context + (choice == 0 ? " Look at home." : " Go")).value();
    const auto logits = model::naive_logits(config_, tensors, tokens);
    double expected = 0.0;
    for (int64_t i = start; i < std::ssize(tokens); ++i) {
      double sum = 0.0;
      for (const auto logit : logits[i - 1]) sum += std::exp(static_cast<double>(logit));
      expected += static_cast<double>(logits[i - 1][tokens[i]]) - std::log(sum);
    }
    for (const auto& item : items) EXPECT_NEAR(item[choice], expected, 1e-4);
  }
}

TEST_F(EvaluationTest, EvaluatesTextsAndTasksTogether) {
  write_piqa(4);
  std::string text;
  for (int i = 0; i < 200; ++i) text += " the cat sat on the mat \n";
  folder_.write_text("ptb.test.txt", text);
  const model::Transformer transformer = random_model(4);
  const Evaluation all = value_of(run(transformer, "piqa,ptb"));
  EXPECT_TRUE(all.interruption.empty());
  ASSERT_EQ(all.results.size(), 2u);
  // The model makes the same choice each time and is right twice.
  EXPECT_EQ(all.results[0].score->acc.value, 0.5);
  EXPECT_EQ(all.results[1].perplexity->context, 64);
  EXPECT_GT(all.results[1].perplexity->chunks, 3);
  EXPECT_EQ(mean_accuracy(all.results)->value, 0.5);
  EXPECT_EQ(mean_accuracy(all.results)->tasks, 1);

  settings_.limit = 2;
  const Evaluation limited = value_of(run(transformer, "piqa,ptb"));
  EXPECT_EQ(limited.results[0].items.size(), 2u);
  EXPECT_EQ(limited.results[1].perplexity->chunks, 2);
}

TEST_F(EvaluationTest, TooLongItemsAreCutAndCounted) {
  write_piqa(2);
  config_.max_position_embeddings = 12;
  const Evaluation evaluation = value_of(run(random_model(5), "piqa"));
  EXPECT_EQ(evaluation.results[0].truncated, 2);
  config_.max_position_embeddings = 2;
  EXPECT_TRUE(has(message_of(run(random_model(5), "piqa")), "piqa_val.jsonl:1: a choice has"));
}

TEST_F(EvaluationTest, InputIsRefusedBeforeTheModelRuns) {
  write_piqa(2);
  folder_.write_text("ptb.test.txt", "too short");
  backend_.on_attention = [] { FAIL() << "the model ran"; };
  EXPECT_TRUE(has(message_of(run(random_model(6), "piqa,ptb")), "ptb.test.txt: the text has "));
}

TEST_F(EvaluationTest, AnInterruptKeepsFinishedTasks) {
  write_piqa(40);
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the cat\n";
  folder_.write_text("ptb.test.txt", text);
  const model::Transformer transformer = random_model(7);
  backend_.on_attention = [] { set_interrupted(true); };
  EXPECT_EQ(message_of(run(transformer, "piqa,ptb")),
            "piqa: interrupted: 16 of 40 items done; no task is finished");
  set_interrupted(false);
  write_piqa(10);
  const Evaluation evaluation = value_of(run(transformer, "piqa,ptb"));
  EXPECT_EQ(evaluation.results.size(), 1u);
  EXPECT_TRUE(evaluation.interruption.starts_with("ptb: interrupted: 0 of "))
      << evaluation.interruption;
}

TEST_F(EvaluationTest, JsonHasTheResultsOfEveryTask) {
  write_piqa(1);
  const auto json = nlohmann::json::parse(
      to_json(value_of(run(random_model(8), "piqa")), settings_, "a \"model\""));
  EXPECT_EQ(json["model"], "a \"model\"");
  EXPECT_EQ(json["complete"], true);
  const auto& piqa = json["results"]["piqa"];
  EXPECT_TRUE(piqa["acc_stderr"].is_null());  // null because there is one item
  EXPECT_EQ(piqa["items"], 1);
  EXPECT_EQ(piqa["published_items"], 1838);
  EXPECT_EQ(json["mean_acc"], piqa["acc"]);
}

TEST_F(EvaluationTest, SamplesHaveRequestsAndScores) {
  folder_.write_text("piqa_val.jsonl", R"(
{"goal": "Find \"é\".", "sol1": "Go", "sol2": "Look at home.", "label": 1})");
  folder_.write_text("winogrande_xl_val.jsonl",
                     R"({"sentence": "A _ b", "option1": "x", "option2": "y", "answer": "1"})");
  const Evaluation evaluation = value_of(run(random_model(8), "piqa,winogrande"));
  std::istringstream lines(samples_json_lines(evaluation));
  std::vector<nlohmann::json> samples;
  for (std::string line; std::getline(lines, line);) samples.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(samples.size(), 2u);
  // Vectors, because nlohmann takes a pair of strings in braces for an object.
  using Pairs = std::vector<std::vector<std::string>>;
  const std::string context = "Question: Find \"é\".\nAnswer:";
  const auto likelihoods = evaluation.results[0].likelihoods.items[0];
  const nlohmann::json expected = {
      {"task", "piqa"},
      {"doc_id", 0},
      {"line", 2},
      {"target", 1},
      {"arguments", Pairs({{context, " Go"}, {context, " Look at home."}})},
      {"log_likelihoods", likelihoods},
      {"acc", likelihoods[1] > likelihoods[0] ? 1 : 0},
      {"acc_norm", likelihoods[1] / 13 > likelihoods[0] / 2 ? 1 : 0}};
  EXPECT_EQ(samples[0], expected);
  EXPECT_EQ(samples[1]["arguments"], Pairs({{"A x", " b"}, {"A y", " b"}}));
  EXPECT_FALSE(samples[1].contains("acc_norm"));
}

TEST_F(EvaluationTest, MissingDataSetsAreLeftOutWithAReason) {
  write_piqa(2);
  const auto wanted = value_of(parse_tasks("hellaswag,piqa,ptb"));
  const AvailableTasks available = value_of(available_tasks(wanted, folder_.path()));
  ASSERT_EQ(available.found.size(), 1u);
  EXPECT_EQ(available.found[0]->name, "piqa");
  ASSERT_EQ(available.skipped.size(), 2u);
  EXPECT_EQ(available.skipped[0].task->name, "hellaswag");
  EXPECT_TRUE(has(available.skipped[0].reason, "hellaswag_val.jsonl"));
  const std::string none = message_of(available_tasks({wanted[0], wanted[2]}, folder_.path()));
  EXPECT_TRUE(has(none, "hellaswag_val.jsonl") && has(none, "ptb.test.txt")) << none;
  EXPECT_TRUE(has(message_of(available_tasks(wanted, folder_.path() / "no")), "no such folder"));
}

// Two tasks with chosen answers are compared. The expected errors come from the definition, in two
// passes.
TEST(TradeOff, LossesArePairedItemByItem) {
  const auto result_of = [](const std::vector<int>& right) {
    TaskResult result;
    std::vector<bool> correct;
    for (const int value : right) {
      result.items.emplace_back();  // choice 0 is right
      result.likelihoods.items.push_back(value == 1 ? std::vector{-1.0, -2.0}
                                                    : std::vector{-2.0, -1.0});
      correct.push_back(value == 1);
    }
    result.score = MultipleChoiceScore{accuracy(correct), {}};
    return result;
  };
  const std::vector<std::vector<int>> dense = {{1, 1, 1, 0, 1, 0, 1, 1}, {1, 0, 1, 1}};
  const std::vector<std::vector<int>> other = {{1, 0, 1, 0, 0, 1, 1, 0}, {1, 0, 0, 1}};
  double value = 0.0, variance = 0.0;
  std::vector<TaskResult> dense_results, other_results;
  for (size_t task = 0; task < dense.size(); ++task) {
    dense_results.push_back(result_of(dense[task]));
    other_results.push_back(result_of(other[task]));
    const auto n = static_cast<double>(dense[task].size());
    double mean = 0.0, squares = 0.0;
    for (size_t i = 0; i < dense[task].size(); ++i) mean += (dense[task][i] - other[task][i]) / n;
    for (size_t i = 0; i < dense[task].size(); ++i) {
      squares += std::pow(dense[task][i] - other[task][i] - mean, 2);
    }
    value += mean / 2;
    variance += squares / (n - 1) / n / 4;
  }
  const auto loss = accuracy_loss(dense_results, other_results);
  ASSERT_TRUE(loss.has_value());
  EXPECT_NEAR(loss->value, value, 1e-12);
  EXPECT_NEAR(loss->standard_error, std::sqrt(variance), 1e-12);
  EXPECT_TRUE(loss->is_noise());
  EXPECT_TRUE(accuracy_loss(dense_results, dense_results)->is_noise());
  EXPECT_FALSE((AccuracyLoss{0.1, 0.05}).is_noise());
  EXPECT_TRUE((AccuracyLoss{0.1, 0.052}).is_noise());
  EXPECT_TRUE((AccuracyLoss{0.1, NAN}).is_noise());  // the error of one item
  EXPECT_FALSE(accuracy_loss({}, {}).has_value());
}

// The pairs of loss and speed-up at ratio 0.2, and the range of gammas, are published.
TEST(TradeOff, GammaMatchesThePublishedRatios) {
  EXPECT_NEAR(*accuracy_lost_per_speedup(0.57, 0.50, 1.63), 0.1111, 5e-5);
  EXPECT_NEAR(*accuracy_lost_per_speedup(0.60, 0.57, 1.74), 0.0405, 5e-5);
  EXPECT_LT(*accuracy_lost_per_speedup(0.50, 0.51, 1.1), 0.0);  // better and faster
  EXPECT_FALSE(accuracy_lost_per_speedup(0.57, 0.50, 1.0).has_value());
  EXPECT_FALSE(accuracy_lost_per_speedup(0.57, 0.50, 0.9).has_value());
}

}  // namespace
}  // namespace neuronmm::eval
