#include "eval/hellaswag.h"

#include <gtest/gtest.h>

namespace neuronmm::eval {
namespace {

// Expected values: the harness's Python, run by hand.
TEST(HellaSwag, CleanUpRules) {
  EXPECT_EQ(clean_hellaswag(""), "");
  EXPECT_EQ(clean_hellaswag(" \t\n a b \xC2\xA0\x1C"), "a b");
  EXPECT_EQ(clean_hellaswag("How to dance [title] Learn"), "How to dance. Learn");
  EXPECT_EQ(clean_hellaswag("Dance. [title] Learn"), "Dance.. Learn");
  EXPECT_EQ(clean_hellaswag("[title] Learn"), " Learn");  // no space before: brackets like others
  EXPECT_EQ(clean_hellaswag("a [step] b [substeps] c"), "a b c");
  EXPECT_EQ(clean_hellaswag("a [x[y] b"), "a b");  // from the first bracket, to the nearest
  EXPECT_EQ(clean_hellaswag("a ]b[ c"), "a ]b[ c");
  EXPECT_EQ(clean_hellaswag("a [b\nc] d [e] f"), "a [b\nc] d f");  // '.' is no newline
  EXPECT_EQ(clean_hellaswag("[a\n[b] c"), "[a\n c");
  EXPECT_EQ(clean_hellaswag("a   b    c"), "a  b  c");  // one pass: three become two
  EXPECT_EQ(clean_hellaswag("a [] b"), "a b");
}

TEST(HellaSwag, Context) {
  EXPECT_EQ(hellaswag_context("Tango", "A band plays.", "they SING"),
            "Tango: A band plays. They sing");
  EXPECT_EQ(hellaswag_context("Home", "How to cook [title] Boil. [step] Now.", ""),
            "Home: How to cook. Boil. Now.");
}

}  // namespace
}  // namespace neuronmm::eval
