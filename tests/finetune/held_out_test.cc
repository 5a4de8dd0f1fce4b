// Tests how a held-out text is chosen, and that one is recognised that is also trained on.

#include "finetune/held_out.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

namespace neuronmm::finetune {
namespace {

// Returns `count` sequences of 100 tokens, of which the first is first + 1000 · the number.
Dataset sequences(int64_t count, text::TokenId first = 0) {
  Dataset text;
  for (int64_t i = 0; i < count; ++i) {
    Example& example = text.examples.emplace_back();
    example.tokens.resize(100);
    std::iota(example.tokens.begin(), example.tokens.end(),
              first + static_cast<text::TokenId>(1000 * i));
  }
  return text;
}

TEST(HeldOut, ASampleIsSpreadOverTheText) {
  const Dataset sample = spread_sample(sequences(50), 1000);
  ASSERT_EQ(sample.examples.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(sample.examples[i].tokens[0], static_cast<text::TokenId>(5000 * i));
  }
  EXPECT_EQ(spread_sample(sequences(3), 1000).examples.size(), 3u);
  EXPECT_EQ(spread_sample(sequences(3), 1).examples.size(), 1u);
}

TEST(HeldOut, WhatIsHeldOutIsNotTrainedOn) {
  Dataset training = sequences(100);
  const auto held_out = hold_out(training, 1000, "text");
  ASSERT_TRUE(held_out.ok());
  EXPECT_EQ(held_out->examples.size(), 10u);
  EXPECT_EQ(training.examples.size(), 90u);
  std::set<text::TokenId> all;
  for (const Example& example : training.examples) all.insert(example.tokens[0]);
  for (const Example& example : held_out->examples) all.insert(example.tokens[0]);
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(share_trained_on(*held_out, training), 0.0);
  Dataset short_text = sequences(50);  // at most an eighth
  EXPECT_EQ(hold_out(short_text, 1000, "text")->examples.size(), 6u);
  Dataset two = sequences(2);
  EXPECT_EQ(hold_out(two, 1000, "text")->examples.size(), 1u);
  Dataset one = sequences(1);
  const auto refused = hold_out(one, 1000, "text.txt");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("text.txt"), std::string::npos);
}

// A copy is found although its sequences begin elsewhere, and text before the scored tokens does
// not count.
TEST(HeldOut, TextThatIsTrainedOnIsFound) {
  const Dataset training = sequences(20);
  EXPECT_EQ(share_trained_on(training, training), 1.0);
  Dataset shifted = sequences(20);
  for (Example& example : shifted.examples) {
    std::rotate(example.tokens.begin(), example.tokens.begin() + 10, example.tokens.end());
  }
  EXPECT_GT(share_trained_on(shifted, training), 0.5);
  Dataset half = sequences(10, 7'000'000);
  for (const Example& example : sequences(10).examples) half.examples.push_back(example);
  EXPECT_NEAR(share_trained_on(half, training), 0.5, 1e-9);
  Dataset same_prompts = sequences(10);
  for (Example& example : same_prompts.examples) {
    example.scored_from = 60;
    std::iota(example.tokens.begin() + 60, example.tokens.end(), 9'000'000);
  }
  EXPECT_EQ(share_trained_on(same_prompts, training), 0.0);
}

}  // namespace
}  // namespace neuronmm::finetune
