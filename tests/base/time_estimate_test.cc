// This file tests the estimate of a command's remaining time with times that are given, and what a
// progress report makes of it.

#include "base/time_estimate.h"

#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "base/progress.h"

namespace neuronmm {
namespace {

TimeEstimate three_tasks() {
  TimeEstimate estimate;
  estimate.expect({{"calibrating", 6}, {"narrowing", 3}, {"writing", 1}});
  return estimate;
}

TEST(TimeEstimate, TheFirstTaskTellsTheTimeOfAll) {
  TimeEstimate estimate = three_tasks();
  estimate.begin("calibrating", 0.0);
  EXPECT_FALSE(estimate.seconds_left(1.0, 0.0));
  // Half of the task took 30 s, so that one unit of share takes 10 s.
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(30.0, 0.5), 30.0 + 30.0 + 10.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(60.0, 1.0), 40.0);
}

TEST(TimeEstimate, FinishedTasksCorrectTheShares) {
  TimeEstimate estimate = three_tasks();
  estimate.begin("calibrating", 0.0);
  estimate.end(60.0, 1.0);
  estimate.begin("narrowing", 0.0);
  // Nothing is done yet, so that the earlier task is all that is known.
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(0.0, 0.0), 40.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(12.0, 0.0), 28.0);
  // The task is twice as slow as its share promised: 60 s for 3 units. All 9 took 120 s.
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(30.0, 0.5), 30.0 + 120.0 / 9.0);
  estimate.end(60.0, 1.0);
  estimate.begin("writing", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(0.0, 0.0), 120.0 / 9.0);
  estimate.end(10.0, 1.0);
}

TEST(TimeEstimate, WorkOfAnEarlierRunTookNoTimeInThisOne) {
  TimeEstimate estimate = three_tasks();
  estimate.begin("calibrating", 0.5);
  EXPECT_FALSE(estimate.seconds_left(0.0, 0.5));
  // A quarter of the task took 15 s: the task has 60 s, one unit 10 s.
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(15.0, 0.75), 15.0 + 40.0);
  estimate.end(30.0, 1.0);
  estimate.begin("narrowing", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(0.0, 0.0), 40.0);
}

TEST(TimeEstimate, TasksThatAreNotNeededTakeNoTime) {
  TimeEstimate estimate = three_tasks();
  estimate.begin("narrowing", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(15.0, 0.5), 15.0 + 10.0);
  estimate.end(30.0, 1.0);
  // No other part has this label, so the label stands for itself.
  estimate.begin("narrowing", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(4.0, 0.5), 4.0 + 10.0);
}

TEST(TimeEstimate, EqualLabelsAreTasksOneAfterTheOther) {
  TimeEstimate estimate;
  estimate.expect({{"narrowing", 1}, {"measuring", 2}, {"narrowing", 1}});
  estimate.begin("narrowing", 0.0);
  estimate.end(10.0, 1.0);
  estimate.begin("measuring", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(0.0, 0.0), 30.0);
  estimate.end(20.0, 1.0);
  estimate.begin("narrowing", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(0.0, 0.0), 10.0);
}

// `fit` runs `compress`, which declares its tasks, too.
TEST(TimeEstimate, TheFirstDeclarationCounts) {
  TimeEstimate estimate = three_tasks();
  estimate.expect({{"calibrating", 1}});
  estimate.begin("calibrating", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(60.0, 1.0), 40.0);
}

TEST(TimeEstimate, WithoutTasksTheCurrentOneIsAll) {
  TimeEstimate estimate;
  EXPECT_FALSE(estimate.expects_tasks());
  estimate.begin("layers", 0.0);
  EXPECT_DOUBLE_EQ(*estimate.seconds_left(5.0, 0.25), 15.0);
}

std::string report_of(bool expects) {
  std::FILE* const stream = std::tmpfile();
  {
    Progress progress(stream);
    if (expects) progress.expect({{"calibrating", 1}, {"writing", 1}});
    progress.start("calibrating", 2);
    progress.update(1);
    progress.update(2);
  }
  std::rewind(stream);
  std::string text(1 << 12, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stream));
  std::fclose(stream);
  return text;
}

TEST(TimeEstimate, AReportSaysWhetherItsEstimateIsThatOfTheCommand) {
  EXPECT_EQ(report_of(true), "calibrating 2/2, 00:00 left in all\n");
  EXPECT_EQ(report_of(false), "calibrating 2/2\n");
}

TEST(Found, SaysWhereTheRunGoesOn) {
  EXPECT_EQ(found_text(12, 30, "layer", "layers"), "found 12 of 30 layers; goes on with layer 13");
}

}  // namespace
}  // namespace neuronmm
