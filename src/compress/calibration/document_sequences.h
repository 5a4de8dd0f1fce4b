#pragma once
// Documents as the sequences of a calibration.

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace neuronmm::compress {

// No sequence has parts of two documents of which one is cut: whole documents stand one behind the
// other as long as together they have at most `longest` tokens, and one that is longer alone is cut
// into equal pieces, each a sequence.
std::vector<std::vector<text::TokenId>> packed_documents(
    const std::vector<std::vector<text::TokenId>>& documents, int64_t longest);

// Sequences that are spread evenly over `all` and have `share` tokens, at most what there is; the
// last may be cut for it, and a rest of one token is left out. What is not taken joins `spare`.
void take_evenly(std::vector<std::vector<text::TokenId>> all, int64_t share,
                 std::vector<std::vector<text::TokenId>>& taken,
                 std::vector<std::vector<text::TokenId>>& spare);

}  // namespace neuronmm::compress
