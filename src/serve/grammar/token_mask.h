#pragma once
// Sets of tokens as bits: token id is bit id % 64 of word id / 64, as in model/token_constraint.h.
// All code that computes or changes the masks of a grammar uses these functions. The token must be
// within the mask.

#include <cstdint>
#include <span>

#include "text/tokenizer/token_id.h"

namespace neuronmm::grammar {

inline void allow_token(std::span<uint64_t> mask, text::TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  mask[id / 64] |= uint64_t{1} << (id % 64);
}
inline void forbid_token(std::span<uint64_t> mask, text::TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  mask[id / 64] &= ~(uint64_t{1} << (id % 64));
}
inline bool is_allowed(std::span<const uint64_t> mask, text::TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  return (mask[id / 64] >> (id % 64) & 1) != 0;
}

}  // namespace neuronmm::grammar
