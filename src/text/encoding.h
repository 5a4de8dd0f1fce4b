#pragma once
// One text on its way to token ids: the steps of a tokenizer, each handing its parts to the next.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_range.h"
#include "text/tokenizer_definition.h"

namespace neuronmm::text {

class Encoding {
 public:
  // Added tokens that are searched before and after normalization; nullptr: none. All must outlive
  // this.
  struct Matchers {
    const AddedTokenMatcher* raw = nullptr;
    const AddedTokenMatcher* normalized = nullptr;
  };
  Encoding(const TokenizerDefinition& definition, const Bpe& bpe, Matchers matchers,
           std::string_view text);

  void append(const std::vector<TokenId>& ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }
  // `literal`: in order, without overlaps; no added token has a byte there.
  void encode(std::span<const ByteRange> literal);
  // An error if the regular expressions took too many steps.
  Result<std::vector<TokenId>> take();

 private:
  using Ranges = std::span<const ByteRange>;

  template <typename OnPart>
  void between_added_tokens(const AddedTokenMatcher* matcher, std::string_view text, Ranges literal,
                            const OnPart& on_part);
  void encode_bytes(std::string_view bytes, bool opens_text, const std::vector<ByteRange>& literal);
  void encode_utf8(std::string_view text, bool opens_text, std::vector<ByteRange> literal);
  size_t head_of(std::string_view text, std::string_view normal);
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
