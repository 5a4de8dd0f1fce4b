// This test compares the clean-up of HellaSwag with the harness.

#include "eval/hellaswag.h"

#include <gtest/gtest.h>

namespace neuronmm::eval {
namespace {

// The expected values come from running the harness's Python code.
TEST(HellaSwag, CleanUpMatchesTheHarness) {
  EXPECT_EQ(clean_hellaswag(""), "");
  EXPECT_EQ(clean_hellaswag(" \t\n a b \xC2\xA0\x1C"), "a b");
  EXPECT_EQ(clean_hellaswag("How to dance [title] Learn"), "How to dance. Learn");
  EXPECT_EQ(clean_hellaswag("Dance. [title] Learn"), "Dance.. Learn");
  // Without a space before it, it is a bracket like others.
  EXPECT_EQ(clean_hellaswag("[title] Learn"), " Learn");
  EXPECT_EQ(clean_hellaswag("a [step] b [substeps] c"), "a b c");
  // From the first bracket to the nearest closing one.
  EXPECT_EQ(clean_hellaswag("a [x[y] b"), "a b");
  EXPECT_EQ(clean_hellaswag("a ]b[ c"), "a ]b[ c");
  EXPECT_EQ(clean_hellaswag("a [b\nc] d [e] f"), "a [b\nc] d f");  // '.' does not match a newline
  EXPECT_EQ(clean_hellaswag("[a\n[b] c"), "[a\n c");
  EXPECT_EQ(clean_hellaswag("a   b    c"), "a  b  c");  // one pass: three spaces become two
  EXPECT_EQ(clean_hellaswag("a [] b"), "a b");
}

TEST(HellaSwag, ContextMatchesTheHarness) {
  EXPECT_EQ(hellaswag_context("Tango", "A band plays.", "they SING"),
            "Tango: A band plays. They sing");
  EXPECT_EQ(hellaswag_context("Home", "How to cook [title] Boil. [step] Now.", ""),
            "Home: How to cook. Boil. Now.");
}

}  // namespace
}  // namespace neuronmm::eval
