#pragma once
// Sums over a text are made in groups of its sequences: each group from 0 on, in the order of its
// sequences, then one group after the other added to the whole. The groups follow from the text
// alone, so that the result is the same bits however many processes share them.

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace neuronmm::compress {

// Sequences [first, end).
struct SequenceGroup {
  size_t first = 0, end = 0;
};

// Of at least this many tokens, so that adding a group's sums costs little beside making them: in
// [n, n] 4 ns per element and group on one core, against 70 for its 2048 tokens. Assumed from 8
// GB/s and 60 GFLOP/s.
inline constexpr int64_t kGroupTokens = 2048;

std::vector<SequenceGroup> sequence_groups(
    const std::vector<std::vector<text::TokenId>>& sequences);

}  // namespace neuronmm::compress
