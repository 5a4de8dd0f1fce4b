#pragma once
// Encodes one text into token ids. Tokenizer::encode makes one object per text. The object runs the
// stages of the tokenizer in order: added tokens, normalizer, pre-tokenizer, BPE.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/tokenizer_definition.h"
#include "text/unicode/byte_range.h"

namespace neuronmm::text {

// The bytes of text per token, by which the size of a result is guessed. English has 4 to 5.
inline constexpr size_t kBytesPerToken = 4;

// The work on one text. All references that it is given must outlive it.
class Encoding {
 public:
  // The added tokens that are searched before and after normalization. A null pointer means that
  // none are searched. The matchers must outlive the Encoding.
  struct Matchers {
    const AddedTokenMatcher* raw = nullptr;
    const AddedTokenMatcher* normalized = nullptr;
  };
  Encoding(const TokenizerDefinition& definition, const Bpe& bpe, Matchers matchers,
           std::string_view text);

  void append(const std::vector<TokenId>& ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }
  // Appends the ids of the text. No added token matches in a `literal` range; the ranges are sorted
  // and do not overlap.
  void encode(std::span<const ByteRange> literal);
  // Returns the ids. Fails if the regular expressions took too many steps or the normalizer made
  // too much text.
  Result<std::vector<TokenId>> take();

 private:
  using Ranges = std::span<const ByteRange>;

  template <typename OnPart>
  void between_added_tokens(const AddedTokenMatcher* matcher, std::string_view text, Ranges literal,
                            const OnPart& on_part);
  void encode_bytes(std::string_view bytes, bool at_text_start,
                    const std::vector<ByteRange>& literal);
  void encode_utf8(std::string_view text, bool at_text_start, std::vector<ByteRange> literal);
  size_t first_character_bytes(std::string_view text, std::string_view normal);
  std::vector<ByteRange> normalized_ranges(std::string_view text, std::string_view normal,
                                           Ranges ranges);

  const TokenizerDefinition& definition_;
  const Bpe& bpe_;
  const Matchers matchers_;
  const std::string_view text_;
  MatchBudget budget_;
  Bpe::Workspace workspace_;
  std::vector<TokenId> ids_;
};

}  // namespace neuronmm::text
