#pragma once
// The pre-tokenizer steps that change the text: Metaspace, and the space and the spelling of
// ByteLevel. The file also holds Whitespace and FixedLength, which cut text without a pattern.

#include <string>

#include "text/tokenizer/pre_tokenizer.h"

namespace neuronmm::text {

// Puts a space before every piece that does not begin with one.
class PrefixSpaceStep : public PreTokenizer::Step {
 public:
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;
};

// Spells bytes with the characters of byte_level.h.
class SpellBytesStep : public PreTokenizer::Step {
 public:
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;
};

// Replaces spaces by `replacement` ("▁") and puts one before pieces that do not begin with it. With
// `split`, every replacement begins a new piece.
class MetaspaceStep : public PreTokenizer::Step {
 public:
  // kFirst puts a replacement only at the start of the input.
  enum class Prepend { kAlways, kFirst, kNever };
  MetaspaceStep(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

// Cuts out runs of word characters and runs of characters that are neither word characters nor
// white space: \w+|[^\w\s]+.
class WordsStep : public PreTokenizer::Step {
 public:
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;
};

// Cuts a piece after every `length` characters.
class FixedLengthStep : public PreTokenizer::Step {
 public:
  explicit FixedLengthStep(int64_t length) : length_(length) {}  // The length is at least 1.
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;

 private:
  int64_t length_;
};

}  // namespace neuronmm::text
