// Tests of the excerpts that processes send of their columns of a row of logits. With them, an
// answer must continue exactly as it does with the whole row, and report the same
// log-probabilities.

#include "tensor_parallel/excerpt.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/continuation.h"

namespace neuronmm::tensor_parallel {
namespace {

using model::GenerateOptions;
using model::TokenId;

// A row as process 0 knows it after reading the excerpts of all processes.
struct Received {
  std::vector<float> row;
  std::optional<ops::LogSum> log_sum;
  int64_t bytes = 0;
};

// Divides a row among processes, and makes and reads the excerpt of every process.
Received sent_by(int processes, std::span<const float> row, const ops::WantedLogits& wanted) {
  const auto width = static_cast<int64_t>(row.size());
  const int64_t block = ops::log_sum_block(width);
  Received received = {std::vector<float>(row.size(), ops::kUnwantedLogit), std::nullopt};
  std::vector<ops::ExponentialSum> sums;
  for (int i = 0; i < processes; ++i) {
    const Share columns = vocabulary_share(width, i, processes);
    const auto mine =
        row.subspan(static_cast<size_t>(columns.first), static_cast<size_t>(columns.count));
    const auto bytes = excerpt(mine, columns, wanted, block);
    received.bytes += std::ssize(bytes);
    ExcerptReader(bytes).read(columns, wanted, block, received.row, sums);
  }
  if (!sums.empty()) received.log_sum = ops::log_sum(sums);
  return received;
}

// Returns logits that are rounded, so that many of them are equal.
std::vector<float> random_row(std::mt19937_64& random, size_t width) {
  std::normal_distribution<float> normal(0.0f, 4.0f);
  const float step = random() % 2 == 0 ? 0.5f : 1e-3f;
  std::vector<float> row(width);
  for (float& logit : row) logit = std::round(normal(random) / step) * step;
  return row;
}

GenerateOptions random_options(std::mt19937_64& random, int64_t width) {
  const auto one_of = [&](auto... values) {
    const std::vector<double> all = {static_cast<double>(values)...};
    return all[random() % all.size()];
  };
  const auto token = [&] { return static_cast<TokenId>(random() % static_cast<uint64_t>(width)); };
  GenerateOptions options;
  options.sampling.temperature = one_of(0, 0, 0.3, 1, 5);
  options.sampling.top_k = static_cast<int64_t>(one_of(0, 1, 2, 20, 50, 100000));
  options.sampling.top_p = one_of(1, 0.9, 0.3);
  options.sampling.min_p = one_of(0, 0, 0.05);
  options.sampling.repetition_penalty = one_of(1, 1, 1.3, 0.7);
  options.sampling.frequency_penalty = one_of(0, 0, 0.5, -2);
  options.sampling.presence_penalty = one_of(0, 0, 1.5, -1);
  for (auto i = static_cast<int>(one_of(0, 0, 3)); i > 0; --i) {
    options.sampling.logit_bias.push_back({token(), one_of(-100, 100, 3)});
  }
  options.sampling.seed = random();
  if (random() % 2 == 0) options.logprobs = static_cast<int64_t>(one_of(0, 1, 5, 20));
  options.stop_tokens = {token(), token()};
  options.min_new_tokens = static_cast<int64_t>(one_of(0, 0, 3));
  options.max_new_tokens = 6;
  return options;
}

std::vector<TokenId> random_prompt(std::mt19937_64& random, int64_t width) {
  std::vector<TokenId> prompt(1 + random() % 40);
  for (TokenId& id : prompt) id = static_cast<TokenId>(random() % static_cast<uint64_t>(width));
  return prompt;
}

std::string told(const Result<model::Step>& step) {
  if (!step.ok()) return step.error().message;
  std::string text =
      fmt::format("{} {} {}", step->token.value_or(-1), step->stop_token.value_or(-1),
                  step->stop ? static_cast<int>(*step->stop) : -1);
  if (!step->logprobs) return text;
  text += fmt::format(" {}:{}", step->logprobs->chosen.id, step->logprobs->chosen.logprob);
  for (const auto& top : step->logprobs->top) text += fmt::format(" {}:{}", top.id, top.logprob);
  return text;
}

TEST(Excerpt, AnswersContinueAsWithTheWholeRow) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int with_few = 0;
  for (int round = 0; round < 600; ++round) {
    const auto width = static_cast<int64_t>(std::vector{5, 33, 211, 4100, 9000}[random() % 5]);
    const GenerateOptions options = random_options(random, width);
    const auto prompt = random_prompt(random, width);
    const int processes = 1 + static_cast<int>(random() % 5);
    model::Continuation whole(prompt, options, 100), few(prompt, options, 100);
    for (int step = 0; step < 6; ++step) {
      std::vector<float> row = random_row(random, static_cast<size_t>(width));
      if (random() % 20 == 0) {
        row[random() % row.size()] =
            std::vector{std::nanf(""), -std::numeric_limits<float>::infinity()}[random() % 2];
      }
      const ops::WantedLogits wanted = few.wanted();
      const Received received = sent_by(processes, row, wanted);
      with_few += wanted.all ? 0 : 1;
      const auto expected = whole.extend(row);
      const auto found = few.extend(received.row, received.log_sum);
      ASSERT_EQ(told(found), told(expected))
          << "seed " << seed << ", round " << round << ", step " << step << ", " << processes
          << " processes, " << width << " tokens";
      if (!expected.ok() || expected->stop) break;
    }
  }
  EXPECT_GT(with_few, 500);
}

TEST(Excerpt, SizeFollowsTheFormula) {
  std::mt19937_64 random(1);
  const std::vector<float> row = random_row(random, 128256);
  const ops::WantedLogits wanted = {
      .all = false, .named = {3, 70000}, .num_best = 20, .log_sum = true};
  for (const int processes : {1, 2, 3, 4, 7}) {
    const int64_t blocks = (128256 + 1023) / 1024;
    EXPECT_EQ(sent_by(processes, row, wanted).bytes,
              processes * (4 + 8 * 20) + 8 * 2 + 12 * blocks);
    EXPECT_EQ(sent_by(processes, row, {}).bytes, 4 * 128256);
  }
}

TEST(Excerpt, ProcessesWithoutABlockSendNoLogits) {
  const std::vector<float> row = {1, 5, 2, 5, 4};
  const Received received = sent_by(3, row, {.all = false, .named = {4}, .num_best = 1});
  const float none = ops::kUnwantedLogit;
  EXPECT_EQ(received.row, (std::vector<float>{none, 5, none, none, 4}));
}

}  // namespace
}  // namespace neuronmm::tensor_parallel
