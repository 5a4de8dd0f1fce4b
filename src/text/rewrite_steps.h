#pragma once
// The pre-tokenizer steps that change the text: Metaspace, and ByteLevel's space and spelling. And
// Whitespace and FixedLength, which cut without a pattern.

#include <string>

#include "text/pre_tokenizer.h"

namespace neuronmm::text {

// A space in front of every piece that begins with none.
class PrefixSpaceStep : public PreTokenizer::Step {
 public:
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;
};

// Bytes as the characters of byte_level.h.
class SpellBytesStep : public PreTokenizer::Step {
 public:
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;
};

// Spaces become `replacement` ("▁"), which is also put in front of pieces without one. With
// `split`, each of them begins a piece.
class MetaspaceStep : public PreTokenizer::Step {
 public:
  enum class Prepend { kAlways, kFirst, kNever };  // kFirst: where the input begins
  MetaspaceStep(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

// Runs of word characters, and runs of others that are no white space: \w+|[^\w\s]+.
class WordsStep : public PreTokenizer::Step {
 public:
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;
};

// So many characters at a time.
class FixedLengthStep : public PreTokenizer::Step {
 public:
  explicit FixedLengthStep(int64_t length) : length_(length) {}  // at least 1
  void apply(const Piece& piece, MatchBudget& budget,
             const PreTokenizer::Next& next) const override;

 private:
  int64_t length_;
};

}  // namespace neuronmm::text
