#include "text/tokenizer/rewrite_steps.h"

#include "text/tokenizer/normalizer_steps.h"
#include "text/unicode/character_class.h"
#include "text/unicode/utf8.h"
#include "text/unicode/white_space.h"

namespace neuronmm::text {

void PrefixSpaceStep::apply(const Piece& piece, MatchBudget&,
                            const PreTokenizer::Next& next) const {
  if (piece.text.front() == ' ') return next(piece);
  const std::string text = std::string(1, ' ').append(piece.text);
  next({text, piece.first_character_bytes > 0 ? piece.first_character_bytes + 1 : 0});
}

void SpellBytesStep::apply(const Piece& piece, MatchBudget&, const PreTokenizer::Next& next) const {
  std::string text, first_character;
  spell_bytes(piece.text, text);
  next({text,
        spell_bytes(piece.text.substr(0, piece.first_character_bytes), first_character).size()});
}

void MetaspaceStep::apply(const Piece& piece, MatchBudget&, const PreTokenizer::Next& next) const {
  std::string text;
  size_t first_character_bytes = 0;
  const bool begins_with_it = piece.text.front() == ' ' || piece.text.starts_with(replacement_);
  const bool prepends =
      !begins_with_it && (prepend_ == Prepend::kAlways ||
                          (prepend_ == Prepend::kFirst && piece.first_character_bytes > 0));
  if (prepends) text = replacement_;
  for (size_t i = 0; i < piece.text.size(); ++i) {
    if (piece.text[i] == ' ')
      text += replacement_;
    else
      text.push_back(piece.text[i]);
    if (i + 1 == piece.first_character_bytes) first_character_bytes = text.size();
  }
  const Piece whole{text, first_character_bytes};
  if (!split_) return next(whole);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(replacement_, begin + 1), text.size());
    next(whole.part(begin, end));
    begin = end;
  }
}

void WordsStep::apply(const Piece& piece, MatchBudget&, const PreTokenizer::Next& next) const {
  enum class Kind { kSpace, kWord, kOther };
  size_t begin = 0;
  Kind last = Kind::kSpace;
  const auto emit = [&](size_t end) {
    if (last != Kind::kSpace) next(piece.part(begin, end));
    begin = end;
  };
  for (size_t i = 0; i < piece.text.size();) {
    const Utf8Step step = next_utf8(piece.text.substr(i));
    const Kind kind = is_white_space(step.code_point)      ? Kind::kSpace
                      : is_word_character(step.code_point) ? Kind::kWord
                                                           : Kind::kOther;
    if (kind != last) emit(i);
    last = kind;
    i += static_cast<size_t>(step.length);
  }
  emit(piece.text.size());
}

void FixedLengthStep::apply(const Piece& piece, MatchBudget&,
                            const PreTokenizer::Next& next) const {
  size_t begin = 0;
  int64_t characters = 0;
  for (size_t i = 0; i < piece.text.size();) {
    i += static_cast<size_t>(next_utf8(piece.text.substr(i)).length);
    if (++characters % length_ != 0) continue;
    next(piece.part(begin, i));
    begin = i;
  }
  next(piece.part(begin, piece.text.size()));
}

}  // namespace neuronmm::text
