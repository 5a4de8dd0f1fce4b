// This test checks which characters of a name reach the terminal.

#include "base/printable.h"

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

TEST(Printable, TextStaysAndControlCharactersAreEscaped) {
  EXPECT_EQ(printable("model-00001.safetensors: \"größer\" 模型\n\tend"),
            "model-00001.safetensors: \"größer\" 模型\n\tend");
  EXPECT_EQ(printable("\x1b[31mred\x07\x7f\r"), "\\x1b[31mred\\x07\\x7f\\x0d");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b"
            "31m")
      << "a C1 control";
}

TEST(Printable, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EncodingsThatUtf8ForbidsAreEscaped) {
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b") << "a C1 control in three bytes";
  EXPECT_EQ(printable("\xf0\x80\x80\x9b"), "\\xf0\\x80\\x80\\x9b") << "an escape in four bytes";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
  const std::string_view first_and_last =
      "\u0800 \ud7ff \ue000 \U00010000 \U0010ffff";  // of the ranges beside those
  EXPECT_EQ(printable(first_and_last), first_and_last);
}

}  // namespace
}  // namespace neuronmm
