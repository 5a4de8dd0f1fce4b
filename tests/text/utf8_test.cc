// Tests UTF-8 decoding on every character and on invalid bytes, and white space at the ends of
// text.

#include "text/unicode/utf8.h"

#include <string>

#include <gtest/gtest.h>

#include "small_tokenizer.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {
namespace {

using Kind = Utf8Step::Kind;

TEST(Utf8, EveryCharacterIsOneStep) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = utf8_of(c);
    const Utf8Step step = next_utf8(text + "a");
    ASSERT_EQ(step.kind, Kind::kCharacter) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, std::ssize(text));
    for (size_t n = 1; n < text.size(); ++n) {
      const Utf8Step part = next_utf8(std::string_view(text).substr(0, n));
      ASSERT_EQ(part.kind, Kind::kIncomplete) << std::hex << static_cast<uint32_t>(c);
      ASSERT_EQ(part.length, static_cast<int>(n));
    }
  }
}

TEST(Utf8, InvalidBytesEndAtTheFirstThatCannotContinue) {
  const auto expect_invalid = [](std::string_view text, int length) {
    EXPECT_EQ(next_utf8(text).kind, Kind::kInvalid) << testing::PrintToString(text);
    EXPECT_EQ(next_utf8(text).length, length) << testing::PrintToString(text);
  };
  expect_invalid("\x80", 1);              // Begins with a continuation.
  expect_invalid("\xC0\xAF", 1);          // Overlong.
  expect_invalid("\xE0\x9F\xBF", 1);      // Overlong.
  expect_invalid("\xF0\x8F\xBF\xBF", 1);  // Overlong.
  expect_invalid("\xED\xA0\x80", 1);      // A surrogate.
  expect_invalid("\xF4\x90\x80\x80", 1);  // Above U+10FFFF.
  expect_invalid("\xF5\x80\x80\x80", 1);
  expect_invalid("\xFF", 1);
  expect_invalid("\xC3(", 1);
  expect_invalid("\xE2\x82(", 2);
  expect_invalid("\xF0\x9F\x98(", 3);
}

TEST(Utf8, ValidLengthStopsBeforeTheFirstBadByte) {
  EXPECT_EQ(valid_utf8_length(""), 0);
  for (size_t before = 0; before < 20; ++before) {
    const std::string text = std::string(before, 'x') + "\xC3\xA9";
    EXPECT_EQ(valid_utf8_length(text), std::ssize(text));
    EXPECT_EQ(valid_utf8_length(text + "\xFF" + text), std::ssize(text));
    EXPECT_EQ(valid_utf8_length(text + "\xE2\x82"), std::ssize(text));
  }
}

TEST(Utf8, CountCodePointsEqualsPythonsLen) {
  EXPECT_EQ(count_code_points(""), 0);
  EXPECT_EQ(count_code_points("abc"), 3);
  EXPECT_EQ(count_code_points("½ cup"), 5);
  EXPECT_EQ(count_code_points("90°C"), 4);
  EXPECT_EQ(count_code_points("\U0001F600x"), 2);
}

TEST(WhiteSpace, UnicodeSpaceIsStrippedFromEitherEnd) {
  EXPECT_EQ(strip_left(" \t\xC2\xA0\xE3\x80\x80"
                       "a "),
            "a ");
  EXPECT_EQ(strip_right(" a\xE2\x80\xA8\n\xC2\x85"), " a");
  EXPECT_EQ(strip_right(" \n "), "");
  EXPECT_EQ(strip_left(""), "");
  EXPECT_EQ(strip_right("a\xA0"), "a\xA0");  // A lone byte is no character.
  // U+180E is no white space.
  EXPECT_EQ(strip_right("a \xE1\xA0\x8E"), "a \xE1\xA0\x8E");
}

}  // namespace
}  // namespace neuronmm::text
