// Tests the pieces that pre-tokenizer steps make.

#include "text/tokenizer/split_step.h"

#include <gtest/gtest.h>

#include "text/tokenizer/rewrite_steps.h"

namespace neuronmm::text {
namespace {

using Words = std::vector<std::string>;
using enum SplitBehavior;

template <typename Step, typename... Args>
void add(PreTokenizer& pre_tokenizer, Args&&... args) {
  pre_tokenizer.add(std::make_shared<Step>(std::forward<Args>(args)...));
}

SplitRegex compile_split(std::string_view pattern,
                         SplitRegex::Kind kind = SplitRegex::Kind::kRegex) {
  return SplitRegex::compile(pattern, kind).value();
}

// `head` is the number of bytes of the input's first character.
Words split(const PreTokenizer& pre_tokenizer, std::string_view text, size_t head = 1) {
  Words words;
  MatchBudget budget(text.size());
  pre_tokenizer.split({text, head}, budget, [&](std::string_view w) { words.emplace_back(w); });
  return words;
}

Words split_by(const char* pattern, SplitBehavior behavior, std::string_view text,
               bool invert = false) {
  PreTokenizer pre_tokenizer;
  add<SplitStep>(pre_tokenizer, compile_split(pattern), behavior, invert);
  return split(pre_tokenizer, text);
}

TEST(SplitStep, MatchesAreHandledAsTheBehaviorSays) {
  EXPECT_EQ(split_by("-", kIsolated, "a-b--c"), (Words{"a", "-", "b", "-", "-", "c"}));
  EXPECT_EQ(split_by("-", kRemoved, "a-b--c"), (Words{"a", "b", "c"}));
  EXPECT_EQ(split_by("-", kContiguous, "a-b--c"), (Words{"a", "-", "b", "--", "c"}));
  EXPECT_EQ(split_by("-", kMergedWithPrevious, "-a-b--c-"), (Words{"-", "a-", "b-", "-", "c-"}));
  EXPECT_EQ(split_by("-", kMergedWithNext, "-a-b--c-"), (Words{"-a", "-b", "-", "-c", "-"}));
  for (const SplitBehavior behavior : {kIsolated, kRemoved, kContiguous, kMergedWithNext}) {
    EXPECT_EQ(split_by("-", behavior, "abc"), Words{"abc"});
    EXPECT_EQ(split_by("-", behavior, ""), Words{});
  }
}

TEST(SplitStep, WithInvertGapsCountAsMatches) {
  EXPECT_EQ(split_by("-", kRemoved, "a-b--c", true), (Words{"-", "-", "-"}));
  EXPECT_EQ(split_by("-", kMergedWithPrevious, "a-b--c", true), (Words{"a", "-b", "-", "-c"}));
}

TEST(SplitStep, LiteralPatternsHaveNoSpecialCharacters) {
  PreTokenizer pre_tokenizer;
  add<SplitStep>(pre_tokenizer, compile_split("a.(", SplitRegex::Kind::kLiteral), kIsolated);
  EXPECT_EQ(split(pre_tokenizer, "xa.(yab("), (Words{"x", "a.(", "yab("}));
}

TEST(SplitStep, ClassesMatchCharacterByCharacter) {
  PreTokenizer digits, punctuation;
  add<SplitStep>(digits, is_numeric, kContiguous);
  EXPECT_EQ(split(digits, "a12\xC2\xBD-3"), (Words{"a", "12\xC2\xBD", "-", "3"}));
  add<SplitStep>(punctuation, is_punctuation, kIsolated);
  EXPECT_EQ(split(punctuation,
                  "a+\xE2\x80\xA6"
                  "b"),
            (Words{"a", "+", "\xE2\x80\xA6", "b"}));
}

TEST(PreTokenizer, StepsSplitThePiecesOfEarlierSteps) {
  PreTokenizer pre_tokenizer;
  add<SplitStep>(pre_tokenizer, compile_split("-"), kRemoved);
  add<SplitStep>(pre_tokenizer, compile_split("[0-9]"), kIsolated);
  EXPECT_EQ(split(pre_tokenizer, "a12-3b--"), (Words{"a", "1", "2", "3", "b"}));
}

TEST(PreTokenizer, PrefixSpaceGoesBeforeEveryPieceWithoutOne) {
  PreTokenizer pre_tokenizer;
  add<SplitStep>(pre_tokenizer, compile_split("-"), kRemoved);
  add<PrefixSpaceStep>(pre_tokenizer);
  add<SplitStep>(pre_tokenizer, compile_split("b"), kIsolated);
  EXPECT_EQ(split(pre_tokenizer, "ab- c-\nd"), (Words{" a", "b", " c", " \nd"}));
}

TEST(PreTokenizer, MetaspacePrependsWhereItsSchemeSays) {
  using enum MetaspaceStep::Prepend;
  const auto metaspace = [](MetaspaceStep::Prepend prepend, bool split_it, std::string_view text) {
    PreTokenizer pre_tokenizer;
    add<SplitStep>(pre_tokenizer, compile_split("-"), kRemoved);
    add<MetaspaceStep>(pre_tokenizer, "_", prepend, split_it);
    return split(pre_tokenizer, text);
  };
  EXPECT_EQ(metaspace(kAlways, false, "a b- c-_d"), (Words{"_a_b", "_c", "_d"}));
  EXPECT_EQ(metaspace(kFirst, false, "a b-c"), (Words{"_a_b", "c"}));
  EXPECT_EQ(metaspace(kFirst, false, "-a b"), (Words{"a_b"}));
  EXPECT_EQ(metaspace(kNever, false, "a b"), (Words{"a_b"}));
  EXPECT_EQ(metaspace(kAlways, true, "a  b_c"), (Words{"_a", "_", "_b", "_c"}));
}

TEST(PreTokenizer, WordsAndFixedLengthCutWithoutAPattern) {
  PreTokenizer words, characters;
  add<WordsStep>(words);
  // The last word is a letter in a circle.
  EXPECT_EQ(split(words, " a_1\xCC\x81?! b\n\xE2\x93\x90"),
            (Words{"a_1\xCC\x81", "?!", "b", "\xE2\x93\x90"}));
  add<FixedLengthStep>(characters, 2);
  EXPECT_EQ(split(characters, "a\xC3\xA9 b1"), (Words{"a\xC3\xA9", " b", "1"}));
}

TEST(PreTokenizer, BytesAreSpelledInGpt2sAlphabet) {
  PreTokenizer pre_tokenizer;
  add<SpellBytesStep>(pre_tokenizer);
  EXPECT_EQ(split(pre_tokenizer, "a \xC3\xA9"), Words{"a\xC4\xA0\xC3\x83\xC2\xA9"});
}

}  // namespace
}  // namespace neuronmm::text
