#pragma once
// Writes the beginning of an answer in a grammar. The fuzz targets of grammars use it to check that
// a grammar always allows a token or the end of the answer.

#include <cstdint>
#include <memory>
#include <vector>

#include "serve/grammar/matcher.h"

namespace neuronmm::grammar {

// Chooses tokens in turn, from the front and from the back.
inline void write_answer(const std::shared_ptr<TokenMasks>& masks) {
  Matcher matcher(masks);
  std::vector<uint64_t> mask(masks->vocabulary().mask_words());
  for (int i = 0; i < 24 && !matcher.must_end(); ++i) {
    matcher.allowed_tokens(mask);
    text::TokenId first = -1, last = -1;
    for (text::TokenId id = 0; id < masks->vocabulary().size(); ++id) {
      if ((mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0) continue;
      if (first < 0) first = id;
      last = id;
    }
    NMM_CHECK(first >= 0);
    matcher.advance(i % 2 == 0 ? last : first);
  }
}

}  // namespace neuronmm::grammar
