#include "text/tokenizer/encoding.h"

#include <algorithm>
#include <utility>

#include "text/unicode/character_class.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

using Ranges = std::span<const ByteRange>;

// Returns the parts of the ranges that lie in [begin, end) of the text, relative to `begin`. A chat
// has as many ranges as messages, so the first one is searched.
std::vector<ByteRange> ranges_within(Ranges ranges, size_t begin, size_t end) {
  std::vector<ByteRange> within;
  auto range = std::ranges::upper_bound(ranges, begin, {}, &ByteRange::end);
  for (; range != ranges.end() && range->begin < end; ++range) {
    const size_t from = std::max(range->begin, begin), to = std::min(range->end, end);
    if (from < to) within.push_back({from - begin, to - begin});
  }
  return within;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

size_t common_suffix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first -
                             a.rbegin());
}

// Returns the first character with its combining marks, which normalization may join to one
// character.
std::string_view first_with_marks(std::string_view text) {
  auto end = static_cast<size_t>(next_utf8(text).length);
  while (end < text.size()) {
    const Utf8Step step = next_utf8(text.substr(end));
    if (!is_combining_mark(step.code_point)) break;
    end += static_cast<size_t>(step.length);
  }
  return text.substr(0, end);
}

}  // namespace

Encoding::Encoding(const TokenizerDefinition& definition, const Bpe& bpe, Matchers matchers,
                   std::string_view text)
    : definition_(definition), bpe_(bpe), matchers_(matchers), text_(text), budget_(text.size()) {
  ids_.reserve(text.size() / kBytesPerToken + definition.prefix.size() + definition.suffix.size());
}

void Encoding::encode(Ranges literal) {
  between_added_tokens(matchers_.raw, text_, literal, [&](size_t begin, size_t end) {
    encode_bytes(text_.substr(begin, end - begin), begin == 0, ranges_within(literal, begin, end));
  });
}

Result<std::vector<TokenId>> Encoding::take() {
  if (budget_.exceeds_max_bytes())
    return fail("tokenizer: its normalizer makes more than {} bytes of this text of {} bytes",
                budget_.max_bytes(), text_.size());
  if (budget_.spent())
    return fail(
        "tokenizer: its regular expressions need more than {} steps for this text of {} bytes; "
        "published tokenizers need a few for each byte",
        budget_.limit(), text_.size());
  return std::move(ids_);
}

// Calls on_part(begin, end) for the text between the added tokens, and appends the ids of these
// tokens.
template <typename OnPart>
void Encoding::between_added_tokens(const AddedTokenMatcher* matcher, std::string_view text,
                                    Ranges literal, const OnPart& on_part) {
  size_t done = 0;
  if (matcher != nullptr) {
    for (const AddedTokenMatcher::Match& match : matcher->find_all(text, literal)) {
      if (done < match.begin) on_part(done, match.begin);
      ids_.push_back(match.id);
      done = match.end;
    }
  }
  if (done < text.size()) on_part(done, text.size());
}

// Encodes every run of valid UTF-8 as a text of its own. The bytes between the runs become their
// one-byte tokens.
void Encoding::encode_bytes(std::string_view bytes, bool at_text_start,
                            const std::vector<ByteRange>& literal) {
  for (size_t begin = 0; begin < bytes.size();) {
    const auto valid = static_cast<size_t>(valid_utf8_length(bytes.substr(begin)));
    const size_t end = begin + valid;
    if (valid > 0) {
      encode_utf8(bytes.substr(begin, valid), at_text_start && begin == 0,
                  ranges_within(literal, begin, end));
    }
    if (end == bytes.size()) break;
    bpe_.encode_byte(bytes[end], ids_);
    begin = end + 1;
  }
}

void Encoding::encode_utf8(std::string_view text, bool at_text_start,
                           std::vector<ByteRange> literal) {
  std::string storage;
  const std::string_view normal = definition_.normalizer.apply(text, storage, budget_);
  const bool is_searched = matchers_.normalized != nullptr && !matchers_.normalized->empty();
  if (is_searched && !literal.empty() && normal != text)
    literal = normalized_ranges(text, normal, literal);
  Piece whole{normal, at_text_start ? first_character_bytes(text, normal) : 0};
  between_added_tokens(matchers_.normalized, normal, literal, [&](size_t begin, size_t end) {
    definition_.pre_tokenizer.split(whole.part(begin, end), budget_, [this](std::string_view word) {
      bpe_.encode(word, workspace_, ids_);
    });
  });
}

// Returns the number of bytes that the normalizer made of the first character. The result is 0 if
// the character was removed or replaced together with others. A sign is appended to the character,
// so that steps that change the end of a text do not see an end there.
size_t Encoding::first_character_bytes(std::string_view text, std::string_view normal) {
  constexpr std::string_view kSign = "0";  // Normalizers leave this sign as it is.
  const Normalizer& normalizer = definition_.normalizer;
  if (normalizer.empty()) return static_cast<size_t>(next_utf8(text).length);
  std::string storage;
  const auto shared = [&](std::string_view part, bool& is_whole) {
    const std::string with_sign = std::string(part).append(kSign);
    std::string_view made = normalizer.apply(with_sign, storage, budget_);
    if (made.ends_with(kSign)) made.remove_suffix(kSign.size());
    const size_t length = common_prefix(made, normal);
    is_whole = length == made.size();
    return length;
  };
  bool is_whole = false;
  const size_t alone =
      shared(text.substr(0, static_cast<size_t>(next_utf8(text).length)), is_whole);
  if (is_whole) return alone;
  // Combining marks may have been joined with the first character.
  const size_t with_marks = shared(first_with_marks(text), is_whole);
  if (!is_whole || with_marks == 0) return 0;
  size_t end = std::min(alone, normal.size() - 1);
  do ++end;
  while (end < normal.size() && (static_cast<uint8_t>(normal[end]) & 0xC0) == 0x80);
  return end;
}

// Returns where the ranges of a text lie in its normal form. A character that was composed across
// the border of a range belongs to the range.
//
// Mostly a border is found from the one before it, by normalizing the text between them. Otherwise
// all text before or after the border is normalized, which is charged to the budget: a chat has as
// many borders as messages.
std::vector<ByteRange> Encoding::normalized_ranges(std::string_view text, std::string_view normal,
                                                   Ranges ranges) {
  std::vector<ByteRange> moved;
  std::string storage;
  const Normalizer& normalizer = definition_.normalizer;
  const auto is_inside = [&](size_t i) {
    return i < text.size() && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80;
  };
  ByteRange known;  // a place of the text, and the same place of the normal form
  const auto advance_to = [&](size_t place) {
    if (place < known.begin) return false;  // two ranges shared a character
    size_t context = known.begin;
    while (context > 0 && is_inside(--context)) {
    }
    const std::string before(
        normalizer.apply(text.substr(context, known.begin - context), storage, budget_));
    std::string_view more =
        normalizer.apply(text.substr(context, place - context), storage, budget_);
    if (!more.starts_with(before)) return false;
    more.remove_prefix(before.size());
    if (!normal.substr(known.end).starts_with(more)) return false;
    known = {place, known.end + more.size()};
    return true;
  };
  const auto shared = [&](std::string_view part, bool at_end) {
    if (!budget_.take(text.size())) return size_t{0};
    const std::string_view made = normalizer.apply(part, storage, budget_);
    return at_end ? common_suffix(made, normal) : common_prefix(made, normal);
  };
  for (ByteRange range : ranges) {
    // Normalizers accept whole characters only.
    while (is_inside(range.begin)) --range.begin;
    while (is_inside(range.end)) ++range.end;
    const size_t begin =
        advance_to(range.begin) ? known.end : shared(text.substr(0, range.begin), false);
    const size_t end =
        advance_to(range.end) ? known.end : normal.size() - shared(text.substr(range.end), true);
    moved.push_back({begin, std::max(begin, end)});
  }
  return moved;
}

}  // namespace neuronmm::text
