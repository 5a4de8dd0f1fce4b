// Tests letter case. The expected values are those of Python's str.capitalize() and len().

#include "text/unicode/letter_case.h"

#include <gtest/gtest.h>

namespace neuronmm::text {
namespace {

TEST(LetterCase, CapitalizeEqualsPython) {
  EXPECT_EQ(capitalize(""), "");
  EXPECT_EQ(capitalize("he"), "He");
  EXPECT_EQ(capitalize("the man says I AM here"), "The man says i am here");
  EXPECT_EQ(capitalize(" he"), " he");
  EXPECT_EQ(capitalize("[step] Go"), "[step] go");
  EXPECT_EQ(capitalize("éCOLE À PARIS"), "École à paris");
  EXPECT_EQ(capitalize("ΑΒΓ"), "Αβγ");
  // The result is title case, not upper case.
  EXPECT_EQ(capitalize("ǆ"), "ǅ");
  EXPECT_EQ(capitalize("½ CUP"), "½ cup");
  EXPECT_EQ(capitalize("a\xff"
                       "B"),
            "A\xff"
            "b");
}

}  // namespace
}  // namespace neuronmm::text
