// Tests where stop strings end a text that arrives in pieces.

#include "text/stop_strings.h"

#include <random>

#include <gtest/gtest.h>

#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

using Pieces = std::vector<std::string>;

struct Shown {
  // The results of each push(), followed by that of finish().
  Pieces pieces;
  bool found;
};

Shown show(const std::vector<std::string>& stops, const Pieces& pieces) {
  StopStrings text(stops);
  Shown shown;
  for (const std::string& piece : pieces) shown.pieces.push_back(text.push(piece));
  shown.pieces.push_back(text.finish());
  shown.found = text.found();
  return shown;
}

std::string joined(const Pieces& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

TEST(StopStrings, WithoutStopsAllTextPasses) {
  const Shown shown = show({}, {"a", "", "b\xC3\xA9"});
  EXPECT_EQ(shown.pieces, (Pieces{"a", "", "b\xC3\xA9", ""}));
  EXPECT_FALSE(shown.found);
}

TEST(StopStrings, TextThatMayBecomeAStopIsHeldBack) {
  EXPECT_EQ(show({"END"}, {"one E", "N", "x", "E", "ND", "more"}).pieces,
            (Pieces{"one ", "", "ENx", "", "", "", ""}));
  const Shown unfinished = show({"END"}, {"one E", "N"});
  EXPECT_EQ(unfinished.pieces, (Pieces{"one ", "", "EN"}));
  EXPECT_FALSE(unfinished.found);
}

TEST(StopStrings, AStopMayEndInsideAPiece) {
  const Shown shown = show({"\n\n"}, {"Yes.\n\nUser:", " no"});
  EXPECT_EQ(shown.pieces, (Pieces{"Yes.", "", ""}));
  EXPECT_TRUE(shown.found);
}

// A prefix of a stop that continues differently may contain the start of the stop itself.
TEST(StopStrings, StopsMayOverlapThemselves) {
  EXPECT_EQ(joined(show({"aab"}, {"a", "a", "a", "b"}).pieces), "a");
  EXPECT_EQ(joined(show({"abab!"}, {"aba", "bab", "ab!"}).pieces), "abab");
  EXPECT_EQ(show({"aa"}, {"a", "a"}).pieces, (Pieces{"", "", ""}));
}

TEST(StopStrings, TheFirstCompleteStopEndsTheText) {
  EXPECT_EQ(joined(show({"xyz", "q"}, {"a xy", "q xyz"}).pieces), "a xy");
  EXPECT_EQ(joined(show({"bcd", "c"}, {"abcd"}).pieces), "ab");
  EXPECT_EQ(joined(show({"c", "bcd"}, {"ab", "c", "d"}).pieces), "ab");
  EXPECT_EQ(joined(show({"d", "bcd"}, {"abcd"}).pieces), "a");
  EXPECT_EQ(joined(show({"bcd", "d"}, {"ab", "cd"}).pieces), "a");
}

// U+1F600 and U+1F601 differ in the last byte. A common prefix of bytes must not cut a character.
TEST(StopStrings, CharactersAreNeverSplit) {
  const std::string grin = "\xF0\x9F\x98\x80", beam = "\xF0\x9F\x98\x81";
  EXPECT_EQ(show({grin}, {"a" + beam, "b"}).pieces, (Pieces{"a" + beam, "b", ""}));
  EXPECT_EQ(show({beam + grin}, {"a" + beam, beam, grin}).pieces, (Pieces{"a", beam, "", ""}));
}

// A naive version of the definition: the text ends before the stop whose last byte comes first.
std::string naive(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string_view longest;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop) && stop.size() > longest.size())
        longest = stop;
    }
    if (!longest.empty()) return text.substr(0, end - longest.size());
  }
  return text;
}

TEST(StopStrings, ResultsDoNotDependOnTheCuts) {
  const Pieces letters = {"a", "b", "\xC3\xA9", "\xC3\xA8"};
  std::mt19937 random(5);
  const auto word = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += letters[random() % letters.size()];
    return text;
  };
  int stopped = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    std::vector<std::string> stops;
    for (size_t i = 0; i <= random() % 3; ++i) stops.push_back(word(1 + random() % 5));
    Pieces pieces;
    for (size_t i = 0; i < 8; ++i) pieces.push_back(word(random() % 4));
    const Shown shown = show(stops, pieces);
    const std::string whole = joined(pieces), expected = naive(stops, whole);
    ASSERT_EQ(joined(shown.pieces), expected) << "trial " << trial << ": " << whole;
    ASSERT_EQ(shown.found, expected.size() < whole.size()) << "trial " << trial;
    for (const std::string& piece : shown.pieces)
      ASSERT_EQ(valid_utf8_length(piece), std::ssize(piece)) << "trial " << trial;
    stopped += shown.found;
  }
  EXPECT_GT(stopped, 5'000);
  EXPECT_LT(stopped, 19'000);
}

// The text that is held back must be a proper prefix of a stop.
TEST(StopStrings, OnlyAPrefixOfAStopIsHeldBack) {
  const std::string stop = "abacabad";
  std::mt19937 random(6);
  for (int trial = 0; trial < 2'000; ++trial) {
    StopStrings text({stop});
    std::string given, all;
    for (int i = 0; i < 12 && !text.found(); ++i) {
      const std::string piece(1, "abcd"[random() % 4]);
      all += piece;
      given += text.push(piece);
      if (text.found()) break;
      const std::string held = all.substr(given.size());
      ASSERT_LT(held.size(), stop.size());
      ASSERT_TRUE(stop.starts_with(held)) << "trial " << trial << ": " << all;
    }
  }
}

}  // namespace
}  // namespace neuronmm::text
